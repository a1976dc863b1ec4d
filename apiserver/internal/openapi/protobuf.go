package openapi

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Protobuf writes an OpenAPI v2 document in gnostic's form, which clients of
// Kubernetes ask for (OpenAPIv2.proto of github.com/google/gnostic-models). It
// knows the properties that BuildV2 writes and all of schemas, leaves out others of schemas, and fails
// on any other.
//
// gnostic's own reader goes by way of YAML nodes and is a large part of a server
// that links it.
func Protobuf(document []byte) ([]byte, error) {
	var root map[string]any
	if err := json.Unmarshal(document, &root); err != nil {
		return nil, fmt.Errorf("openapi v2: %w", err)
	}
	out, err := newDocumentForm().append(nil, root)
	if err != nil {
		return nil, fmt.Errorf("openapi v2: %w", err)
	}
	return out, nil
}

// newDocumentForm returns the field numbers of OpenAPIv2.proto by the names of OpenAPI. Where the
// proto has a choice between messages, a message wraps each.
func newDocumentForm() *form {
	externalDocs := &form{extensions: 3, fields: fields{"description": {1, text}, "url": {2, text}}}
	// A schema may be a user's. What OpenAPI v2 lacks in one must not cost all clients the document.
	schema := &form{extensions: 31, lenient: true}
	schema.fields = fields{
		"$ref": {1, text}, "format": {2, text}, "title": {3, text}, "description": {4, text}, "default": {5, within(2, asYAML)},
		"multipleOf": {6, double}, "maximum": {7, double}, "exclusiveMaximum": {8, truth}, "minimum": {9, double}, "exclusiveMinimum": {10, truth},
		"maxLength": {11, integer}, "minLength": {12, integer}, "pattern": {13, text}, "maxItems": {14, integer}, "minItems": {15, integer},
		"uniqueItems": {16, truth}, "maxProperties": {17, integer}, "minProperties": {18, integer},
		"required": {19, each(text)}, "enum": {20, each(within(2, asYAML))},
		"additionalProperties": {21, schemaOrTruth(schema)}, "type": {22, within(1, text)}, "items": {23, within(1, schema.write)},
		"allOf": {24, each(schema.write)}, "properties": {25, within(1, pairs(schema.write))}, "discriminator": {26, text}, "readOnly": {27, truth},
		"externalDocs": {29, externalDocs.write}, "example": {30, within(2, asYAML)},
	}
	body := &form{extensions: 6, fields: fields{
		"description": {1, text}, "name": {2, text}, "in": {3, text}, "required": {4, truth}, "schema": {5, schema.write},
	}}
	query := &form{extensions: 23, fields: fields{
		"required": {1, truth}, "in": {2, text}, "description": {3, text}, "name": {4, text},
		"type": {6, text}, "format": {7, text}, "uniqueItems": {20, truth},
	}}
	path := &form{extensions: 22, fields: fields{
		"required": {1, truth}, "in": {2, text}, "description": {3, text}, "name": {4, text},
		"type": {5, text}, "format": {6, text}, "uniqueItems": {19, truth},
	}}
	parameters := each(within(1, placed(map[string]write{
		"body":  within(1, body.write),
		"query": within(2, within(3, query.write)),
		"path":  within(2, within(4, path.write)),
	})))
	response := &form{extensions: 5, fields: fields{"description": {1, text}, "schema": {2, within(1, schema.write)}}}
	operation := &form{extensions: 13, fields: fields{
		"tags": {1, each(text)}, "summary": {2, text}, "description": {3, text}, "operationId": {5, text},
		"produces": {6, each(text)}, "consumes": {7, each(text)}, "parameters": {8, parameters},
		"responses": {9, within(1, pairs(within(1, response.write)))}, "schemes": {10, each(text)}, "deprecated": {11, truth},
	}}
	item := &form{extensions: 10, fields: fields{
		"get": {2, operation.write}, "put": {3, operation.write}, "post": {4, operation.write}, "delete": {5, operation.write},
		"options": {6, operation.write}, "head": {7, operation.write}, "patch": {8, operation.write}, "parameters": {9, parameters},
	}}
	info := &form{extensions: 7, fields: fields{"title": {1, text}, "version": {2, text}, "description": {3, text}}}
	return &form{extensions: 16, fields: fields{
		"swagger": {1, text}, "info": {2, info.write}, "host": {3, text}, "basePath": {4, text},
		"schemes": {5, each(text)}, "consumes": {6, each(text)}, "produces": {7, each(text)},
		"paths": {8, within(2, pairs(item.write))}, "definitions": {9, within(1, pairs(schema.write))},
	}}
}

// A form describes how an object of the document is encoded as a message.
type form struct {
	fields fields
	// extensions is the field number of the list of x- properties.
	extensions protowire.Number
	// lenient leaves out unknown properties.
	lenient bool
}

type fields map[string]struct {
	number protowire.Number
	write  write
}

// write appends a value of the document as field n of a message.
type write func(out []byte, n protowire.Number, value any) ([]byte, error)
