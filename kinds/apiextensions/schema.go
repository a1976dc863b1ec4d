package apiextensions

import (
	"bytes"
	"encoding/json"
	"errors"
)

// JSONSchemaProps is a JSON schema.
type JSONSchemaProps struct {
	ID          string  `json:"id,omitempty"`
	Schema      string  `json:"$schema,omitempty"`
	Ref         *string `json:"$ref,omitempty"`
	Description string  `json:"description,omitempty"`
	Type        string  `json:"type,omitempty"`
	Format      string  `json:"format,omitempty"`
	Title       string  `json:"title,omitempty"`
	// Default is applied where a field is absent.
	Default              *JSON                                   `json:"default,omitempty"`
	Maximum              *float64                                `json:"maximum,omitempty"`
	ExclusiveMaximum     bool                                    `json:"exclusiveMaximum,omitempty"`
	Minimum              *float64                                `json:"minimum,omitempty"`
	ExclusiveMinimum     bool                                    `json:"exclusiveMinimum,omitempty"`
	MaxLength            *int64                                  `json:"maxLength,omitempty"`
	MinLength            *int64                                  `json:"minLength,omitempty"`
	Pattern              string                                  `json:"pattern,omitempty"`
	MaxItems             *int64                                  `json:"maxItems,omitempty"`
	MinItems             *int64                                  `json:"minItems,omitempty"`
	UniqueItems          bool                                    `json:"uniqueItems,omitempty"`
	MultipleOf           *float64                                `json:"multipleOf,omitempty"`
	Enum                 []JSON                                  `json:"enum,omitempty"`
	MaxProperties        *int64                                  `json:"maxProperties,omitempty"`
	MinProperties        *int64                                  `json:"minProperties,omitempty"`
	Required             []string                                `json:"required,omitempty"`
	Items                *JSONSchemaPropsOrArray                 `json:"items,omitempty"`
	AllOf                []JSONSchemaProps                       `json:"allOf,omitempty"`
	OneOf                []JSONSchemaProps                       `json:"oneOf,omitempty"`
	AnyOf                []JSONSchemaProps                       `json:"anyOf,omitempty"`
	Not                  *JSONSchemaProps                        `json:"not,omitempty"`
	Properties           map[string]JSONSchemaProps              `json:"properties,omitempty"`
	AdditionalProperties *JSONSchemaPropsOrBool                  `json:"additionalProperties,omitempty"`
	PatternProperties    map[string]JSONSchemaProps              `json:"patternProperties,omitempty"`
	Dependencies         map[string]JSONSchemaPropsOrStringArray `json:"dependencies,omitempty"`
	AdditionalItems      *JSONSchemaPropsOrBool                  `json:"additionalItems,omitempty"`
	Definitions          map[string]JSONSchemaProps              `json:"definitions,omitempty"`
	ExternalDocs         *ExternalDocumentation                  `json:"externalDocs,omitempty"`
	Example              *JSON                                   `json:"example,omitempty"`
	Nullable             bool                                    `json:"nullable,omitempty"`

	XPreserveUnknownFields *bool            `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	XEmbeddedResource      bool             `json:"x-kubernetes-embedded-resource,omitempty"`
	XIntOrString           bool             `json:"x-kubernetes-int-or-string,omitempty"`
	XListMapKeys           []string         `json:"x-kubernetes-list-map-keys,omitempty"`
	XListType              *string          `json:"x-kubernetes-list-type,omitempty"`
	XMapType               *string          `json:"x-kubernetes-map-type,omitempty"`
	XValidations           []ValidationRule `json:"x-kubernetes-validations,omitempty" patchStrategy:"merge" patchMergeKey:"rule"`
}

// ValidationRule is a rule in CEL.
type ValidationRule struct {
	Rule              string  `json:"rule"`
	Message           string  `json:"message,omitempty"`
	MessageExpression string  `json:"messageExpression,omitempty"`
	Reason            *string `json:"reason,omitempty"`
	FieldPath         string  `json:"fieldPath,omitempty"`
	OptionalOldSelf   *bool   `json:"optionalOldSelf,omitempty"`
}

// ExternalDocumentation leads to documentation.
type ExternalDocumentation struct {
	Description string `json:"description,omitempty"`
	URL         string `json:"url,omitempty"`
}

// JSON is any JSON value.
type JSON struct {
	Raw []byte `json:"-"`
}

// OpenAPISchemaType says that a JSON may be of any type.
func (JSON) OpenAPISchemaType() []string { return nil }

// MarshalJSON implements [json.Marshaler].
func (j JSON) MarshalJSON() ([]byte, error) {
	if len(j.Raw) == 0 {
		return []byte("null"), nil
	}
	return j.Raw, nil
}

// UnmarshalJSON implements [json.Unmarshaler]. A null is a JSON without Raw. Raw becomes what [json.Marshal] makes
// of it, so that two schemas of which one was encoded in between are equal.
func (j *JSON) UnmarshalJSON(data []byte) error {
	j.Raw = nil
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	raw, err := json.Marshal(json.RawMessage(data))
	j.Raw = raw
	return err
}

// JSONSchemaPropsOrArray is a schema, or a list of schemas.
type JSONSchemaPropsOrArray struct {
	Schema      *JSONSchemaProps
	JSONSchemas []JSONSchemaProps
}

// OpenAPISchemaType says that it may be of any type.
func (JSONSchemaPropsOrArray) OpenAPISchemaType() []string { return nil }

// MarshalJSON implements [json.Marshaler].
func (s JSONSchemaPropsOrArray) MarshalJSON() ([]byte, error) {
	if len(s.JSONSchemas) > 0 {
		return json.Marshal(s.JSONSchemas)
	}
	return json.Marshal(s.Schema)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *JSONSchemaPropsOrArray) UnmarshalJSON(data []byte) error {
	*s = JSONSchemaPropsOrArray{}
	if len(data) == 0 {
		return nil
	}
	if data[0] == '{' {
		return json.Unmarshal(data, &s.Schema)
	}
	return json.Unmarshal(data, &s.JSONSchemas)
}

// JSONSchemaPropsOrBool is a schema, or whether any value is allowed.
type JSONSchemaPropsOrBool struct {
	Allows bool
	Schema *JSONSchemaProps
}

// OpenAPISchemaType says that it may be of any type.
func (JSONSchemaPropsOrBool) OpenAPISchemaType() []string { return nil }

// MarshalJSON implements [json.Marshaler].
func (s JSONSchemaPropsOrBool) MarshalJSON() ([]byte, error) {
	if s.Schema != nil {
		return json.Marshal(s.Schema)
	}
	return json.Marshal(s.Allows || s.Schema != nil)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *JSONSchemaPropsOrBool) UnmarshalJSON(data []byte) error {
	*s = JSONSchemaPropsOrBool{}
	switch {
	case len(data) == 0:
		return nil
	case data[0] == '{':
		s.Allows = true
		return json.Unmarshal(data, &s.Schema)
	case string(data) == "true":
		s.Allows = true
		return nil
	case string(data) == "false":
		return nil
	}
	return errors.New("boolean or JSON schema expected")
}

// JSONSchemaPropsOrStringArray is a schema, or a list of names.
type JSONSchemaPropsOrStringArray struct {
	Schema   *JSONSchemaProps
	Property []string
}

// OpenAPISchemaType says that it may be of any type.
func (JSONSchemaPropsOrStringArray) OpenAPISchemaType() []string { return nil }

// MarshalJSON implements [json.Marshaler].
func (s JSONSchemaPropsOrStringArray) MarshalJSON() ([]byte, error) {
	if len(s.Property) > 0 {
		return json.Marshal(s.Property)
	}
	return json.Marshal(s.Schema)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *JSONSchemaPropsOrStringArray) UnmarshalJSON(data []byte) error {
	*s = JSONSchemaPropsOrStringArray{}
	if len(data) == 0 {
		return nil
	}
	if data[0] == '{' {
		return json.Unmarshal(data, &s.Schema)
	}
	return json.Unmarshal(data, &s.Property)
}
