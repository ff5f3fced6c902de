# SPDX-License-Identifier: Apache-2.0
"""The page of a service in Chromium, with answers that the test gives in the place of the service: what is shown while one is awaited, where it is a refusal, and where it is a picture."""
import importlib.machinery
import importlib.util
import json
import pathlib
import shutil
import tempfile
import unittest

from bascule_run import ROOT
from drawing import PIPELINES
from serving import Served, has_parser

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# What stands below the form: (name, role, text) of each that is seen, and the texts of pictures.
SHOWN = """({cards: [...out.children].filter(e => !e.hidden).map(e => [e.tagName, e.getAttribute('role'), e.textContent]),
             pictures: [...document.images].map(e => e.alt), asks: !document.querySelector('button').disabled})"""


def check_pages():
    loader = importlib.machinery.SourceFileLoader("check_pages", str(ROOT / "tools" / "check_pages"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_pages", loader))
    loader.exec_module(module)
    return module


@unittest.skipUnless(BROWSER, "chromium is not installed")
@unittest.skipUnless(has_parser(), "this program was built without Boost.Beast")
class ServedPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        with Served(PIPELINES / "sd_v1", "serve.ui=true", "serve.num_inference_steps=2", "serve.max_batch_tokens=128") as server:
            cls.page = server.ask("/ui")[2].decode()
        cls.browser = check_pages().Browser(BROWSER, cls.folder / "profile")
        cls.addClassCleanup(cls.browser.close)

    def open(self, task="drawing", pictures="no"):
        """The page of a model of that task; `give` holds what answers the requests that wait."""
        page = self.folder / "page.html"
        page.write_text(self.page.replace('data-task="drawing" data-pictures="no"', f'data-task="{task}" data-pictures="{pictures}"'))
        self.browser.open(page.as_uri())
        self.browser.evaluate("window.give = []; window.fetch = () => new Promise(resolve => give.push(resolve)); 0")

    def shown(self, script="0", milliseconds=50):
        self.browser.evaluate(f"{script}; new Promise(done => setTimeout(done, {milliseconds}))")
        return self.browser.evaluate(SHOWN)

    def answer(self, members):
        """What is shown once the next request is answered."""
        return self.shown(f"give.shift()({{headers: new Headers({{'Content-Type': 'image/png'}}), {members}}})", 200)

    def test_says_that_it_waits_until_the_answer_is_there(self):
        self.open()
        self.assertEqual(self.shown("document.querySelector('button').click()"), {"cards": [], "pictures": [], "asks": False})
        self.assertEqual(self.shown(milliseconds=700), {"cards": [["SECTION", None, "Waiting for the answer…"]], "pictures": [], "asks": False})
        after = self.answer("ok: true, blob: async () => new Blob()")
        self.assertEqual((after["cards"], after["asks"]), ([["SECTION", None, ""]], True))

    def test_a_refusal_stands_in_the_place_of_the_picture(self):
        self.open()
        self.shown("document.querySelector('button').click()")
        refused = self.answer(f"ok: false, status: 422, json: async () => ({json.dumps({'error': 'the prompt is too long'})})")
        self.assertEqual(refused, {"cards": [["SECTION", "alert", "the prompt is too long (422)"]], "pictures": [], "asks": True})
        self.shown("document.querySelector('button').click()")
        failed = self.answer("ok: true, blob: async () => { throw new Error('cut off'); }")
        self.assertEqual(failed, {"cards": [["SECTION", "alert", "cut off"]], "pictures": [], "asks": True})

    def test_a_picture_has_its_text(self):
        self.open()
        self.shown("document.forms[0].elements.text.value = 'a red fox'; document.querySelector('button').click()")
        self.assertEqual(self.answer("ok: true, blob: async () => new Blob()")["pictures"], ["a red fox"])
        self.open("vectors", "yes")
        self.assertEqual(self.browser.evaluate("document.forms[0].elements.picture.parentElement.innerText.trim()"), "Picture, in place of the text")
