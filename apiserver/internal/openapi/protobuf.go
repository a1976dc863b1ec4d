package openapi

import (
	"fmt"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

// Protobuf writes an OpenAPI v2 document in gnostic's form, which clients of
// Kubernetes ask for.
func Protobuf(document []byte) ([]byte, error) {
	parsed, err := openapi_v2.ParseDocument(document)
	if err != nil {
		return nil, fmt.Errorf("openapi v2: %w", err)
	}
	return proto.Marshal(parsed)
}
