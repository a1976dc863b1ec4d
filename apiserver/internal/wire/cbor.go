package wire

import (
	"errors"
	"net/http"

	"github.com/planekit/planekit/internal/cborjson"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// CBOR is taken from clients that send it, and sent to those that ask for it. Inside, it is JSON: kinds are kept and sent
// again in JSON or protobuf, and CBOR is made of that.
const (
	CBOR      = runtime.ContentTypeCBOR
	CBORWatch = runtime.ContentTypeCBORSequence
	CBORApply = string(types.ApplyCBORPatchType)
)

// CBORToJSON returns a body in CBOR as JSON, if it can be read at a bounded cost. Its text may take most bytes in JSON.
func CBORToJSON(data []byte, most int) ([]byte, error) {
	limits := CostLimits(data)
	text, err := cborjson.ToJSON(data, cborjson.Limits{Depth: limits.Depth, Items: 2 * limits.Values, Text: most}) // keys are items too
	switch {
	case errors.Is(err, cborjson.ErrTooMuch):
		return nil, BadRequest("the body of the request could not be read: %v", err)
	case errors.Is(err, cborjson.ErrTooLong):
		return nil, &http.MaxBytesError{Limit: int64(most)}
	case err != nil:
		return nil, BadRequest("error decoding CBOR: %v (%s)", err, summary(data))
	}
	return text, nil
}

// JSONToCBOR returns what an encoder has written in JSON as CBOR.
func JSONToCBOR(text []byte) ([]byte, error) { return cborjson.FromJSON(text) }
