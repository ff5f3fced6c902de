// SPDX-License-Identifier: Apache-2.0
// A head of BERT and its relatives: the layers behind their body with the loss, the fields that these read of a batch,
// and the head's part in a folder. TextModel (text_model.h) joins it with a body. Before the seal.
#pragma once

#include <string>
#include <vector>

#include "src/models/bert_body.h"
#include "src/models/model.h"

namespace bascule {

class TextHead {
 public:
  virtual ~TextHead() = default;

  virtual const char* name() const = 0;  // as model.head
  virtual const char* task() const = 0;  // as the model card's pipeline_tag: "fill-mask"
  virtual LayerRows rows() const = 0;    // those of the body's last layer that it reads
  virtual Fields fields() const = 0;     // beside those of the body
  virtual void set_inputs(ModelInputs*) const {}

  // As the functions of Model with these names.
  virtual bool depends_on_classes(const std::string& /*tensor*/) const { return false; }
  virtual std::vector<ParameterPiece> unused_tensors() const { return {}; }
  virtual void complete_config(Json*) const {}
  virtual std::vector<std::string> notes() const { return {}; }
  // Its decoder is not the word table although config.json says so.
  virtual bool has_own_decoder() const { return false; }

  // Adds its operations to the graph, and its loss, outputs and reference to the recording. last: of record_body(),
  // with rows() or, for the reference, all rows.
  virtual void record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                      Recording* recording) const = 0;
};

}  // namespace bascule
