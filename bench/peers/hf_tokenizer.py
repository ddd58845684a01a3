"""hf_tokenizer.py MODEL.gguf FOLDER: writes the model's tokenizer, of byte-level BPE, as a Hugging Face folder."""

import sys

from gguf import GGUFReader
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def main(source, folder):
    reader = GGUFReader(source)

    def texts(name):
        field = reader.fields[name]
        return [bytes(field.parts[index]).decode() for index in field.data]

    vocabulary = texts("tokenizer.ggml.tokens")
    end = vocabulary[int(reader.fields["tokenizer.ggml.eos_token_id"].parts[-1][0])]
    merges = [tuple(merge.split(" ", 1)) for merge in texts("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(vocabulary)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=end, eos_token=end, pad_token=end,
                            unk_token=end).save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:3])
