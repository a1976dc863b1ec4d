package apiextensions

import (
	"errors"

	"github.com/planekit/planekit/kinds/internal/protobuf"
)

// The messages are those of Kubernetes' k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1, whose field numbers the
// tags have.

// Reset empties d.
func (d *CustomResourceDefinition) Reset() { *d = CustomResourceDefinition{} }

// Marshal returns d as a protobuf message.
func (d *CustomResourceDefinition) Marshal() ([]byte, error) { return protobuf.Marshal(d) }

// Unmarshal reads a protobuf message into d.
func (d *CustomResourceDefinition) Unmarshal(data []byte) error { return protobuf.Unmarshal(data, d) }

// Reset empties l.
func (l *CustomResourceDefinitionList) Reset() { *l = CustomResourceDefinitionList{} }

// Marshal returns l as a protobuf message.
func (l *CustomResourceDefinitionList) Marshal() ([]byte, error) { return protobuf.Marshal(l) }

// Unmarshal reads a protobuf message into l.
func (l *CustomResourceDefinitionList) Unmarshal(data []byte) error {
	return protobuf.Unmarshal(data, l)
}

// Marshal returns v as a protobuf message, also if it is packed.
func (v *CustomResourceValidation) Marshal() ([]byte, error) {
	s, err := v.Schema()
	if err != nil {
		return nil, err
	}
	type plain CustomResourceValidation
	return protobuf.Marshal(&plain{OpenAPIV3Schema: s})
}

// Unmarshal reads a protobuf message into v.
func (v *CustomResourceValidation) Unmarshal(data []byte) error {
	type plain CustomResourceValidation
	return protobuf.Unmarshal(data, (*plain)(v))
}

// Marshal returns j as a protobuf message.
func (j *JSON) Marshal() ([]byte, error) {
	type plain JSON
	return protobuf.Marshal((*plain)(j))
}

// Unmarshal reads a protobuf message into j. Raw becomes as UnmarshalJSON makes it, which returns an error if it
// is no JSON.
func (j *JSON) Unmarshal(data []byte) error {
	type plain JSON
	if err := protobuf.Unmarshal(data, (*plain)(j)); err != nil || len(j.Raw) == 0 {
		j.Raw = nil
		return err
	}
	if err := j.UnmarshalJSON(j.Raw); err != nil {
		return errors.New("raw is not valid JSON")
	}
	return nil
}
