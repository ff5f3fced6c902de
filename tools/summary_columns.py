# SPDX-License-Identifier: Apache-2.0
"""The columns of data sets with texts and summaries, as run_summarization.py of Transformers knows them."""

SUMMARY_COLUMNS = {  # name of the data set, without its owner: (text, summary)
    "amazon_reviews_multi": ("review_body", "review_title"),
    "big_patent": ("description", "abstract"),
    "cnn_dailymail": ("article", "highlights"),
    "multi_news": ("document", "summary"),
    "orange_sum": ("text", "summary"),
    "pn_summary": ("article", "summary"),
    "psc": ("extract_text", "summary_text"),
    "samsum": ("dialogue", "summary"),
    "thaisum": ("body", "summary"),
    "wiki_summary": ("article", "highlights"),
    "xglue": ("news_body", "news_title"),
    "xsum": ("document", "summary"),
}


def summary_columns(data_set):
    """(text, summary) of a data set by its name on the hub or its folder; (None, None) of an unknown one."""
    return SUMMARY_COLUMNS.get(data_set.rstrip("/").rsplit("/", 1)[-1], (None, None))
