"""Modules of torch.nn that are several of its modules: their forward, computed by these parts, can be traced. PyTorch's
own forward chooses between ways of computing by its values' types and shapes, which a trace does not know."""
from .command import Error


def _attend(layer, x, mask):
    return layer.dropout1(layer.self_attn(x, x, x, attn_mask=mask, need_weights=False)[0])


def _feed(layer, x):
    return layer.dropout2(layer.linear2(layer.dropout(layer.activation(layer.linear1(x)))))


def _encoder_layer(name, layer, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
    if src_key_padding_mask is not None:
        raise Error(f"{name}: src_key_padding_mask; Sounder's attention hides no step of one sample alone: leave "
                    "the mask out, and padding is a step as others are")
    if is_causal and src_mask is None:
        raise Error(f"{name}: is_causal without a mask; give one, which PyTorch needs, too: "
                    "torch.nn.Transformer.generate_square_subsequent_mask(STEPS)")
    if layer.norm_first:
        src = src + _attend(layer, layer.norm1(src), src_mask)
        return src + _feed(layer, layer.norm2(src))
    src = layer.norm1(src + _attend(layer, src, src_mask))
    return layer.norm2(src + _feed(layer, src))


def _encoder(name, encoder, src, mask=None, src_key_padding_mask=None, is_causal=None):
    causal = {"is_causal": True} if is_causal else {}  # PyTorch 1.13 has no such word
    for layer in encoder.layers:
        src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, **causal)
    return src if encoder.norm is None else encoder.norm(src)


# What each computes, of its name, itself and what it is called with.
EXPANSIONS = {"TransformerEncoderLayer": _encoder_layer, "TransformerEncoder": _encoder}


def expansion_of(module):
    """None: it is no such module, or one of a class of the user's, whose own forward is traced."""
    import torch

    kind = type(module).__name__
    return EXPANSIONS[kind] if kind in EXPANSIONS and type(module) is getattr(torch.nn, kind) else None
