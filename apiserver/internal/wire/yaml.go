package wire

import (
	"context"

	"github.com/planekit/planekit/internal/yamljson"
)

// YAMLToJSON returns text, of one YAML document, as JSON. With strict it also returns an
// error for each key that a map has twice.
func YAMLToJSON(ctx context.Context, text []byte, strict bool) (out []byte, twice error, err error) {
	return yamljson.Convert(ctx, text, yamljson.Limits{Depth: MaxDepth, Bytes: MaxBody + len(text)}, strict)
}
