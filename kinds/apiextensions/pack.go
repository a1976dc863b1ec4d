package apiextensions

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
)

// packedAsJSON is the size in bytes up to which a packed schema is not compressed: a compressor takes some
// hundred kilobytes of memory.
const packedAsJSON = 2048

// Pack replaces the schema by its JSON, compressed: a decoded schema takes about seven times the memory of its
// JSON, and a compressed one a tenth. It does nothing if there is no schema, or if it cannot be encoded.
func (v *CustomResourceValidation) Pack() {
	if v == nil || v.OpenAPIV3Schema == nil {
		return
	}
	data, err := json.Marshal(v.OpenAPIV3Schema)
	if err != nil {
		return
	}
	v.OpenAPIV3Schema, v.Packed = nil, pack(data)
}

// pack compresses JSON that is large. JSON begins with a brace, and compressed data does not.
func pack(data []byte) []byte {
	if len(data) <= packedAsJSON {
		return data
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return data
	}
	_, err = w.Write(data)
	if w.Close() != nil || err != nil {
		return data
	}
	return bytes.Clone(out.Bytes())
}

// Schema returns the schema, which it decodes if it is packed; nil if there is none.
func (v *CustomResourceValidation) Schema() (*JSONSchemaProps, error) {
	if v == nil {
		return nil, nil
	}
	if v.Packed == nil {
		return v.OpenAPIV3Schema, nil
	}
	data, err := v.unpack()
	if err != nil {
		return nil, err
	}
	s := &JSONSchemaProps{}
	return s, json.Unmarshal(data, s)
}

// unpack returns the packed schema as JSON.
func (v *CustomResourceValidation) unpack() ([]byte, error) {
	if v.Packed[0] == '{' {
		return v.Packed, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(v.Packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// MarshalJSON implements [json.Marshaler].
func (v CustomResourceValidation) MarshalJSON() ([]byte, error) {
	type plain CustomResourceValidation
	if v.Packed == nil {
		return json.Marshal(plain(v))
	}
	data, err := v.unpack()
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]json.RawMessage{"openAPIV3Schema": data})
}

// Pack packs the schemas of all versions, in place.
func (d *CustomResourceDefinition) Pack() {
	for i := range d.Spec.Versions {
		d.Spec.Versions[i].Schema.Pack()
	}
}

// Unpacked returns a copy of d with decoded schemas.
func (d *CustomResourceDefinition) Unpacked() (*CustomResourceDefinition, error) {
	out := d.DeepCopy()
	for i := range out.Spec.Versions {
		v := out.Spec.Versions[i].Schema
		if v == nil || v.Packed == nil {
			continue
		}
		s, err := v.Schema()
		if err != nil {
			return nil, err
		}
		v.OpenAPIV3Schema, v.Packed = s, nil
	}
	return out, nil
}

// DecodePacked decodes JSON as [json.Unmarshal] does. The schemas are packed without being decoded.
func (d *CustomResourceDefinition) DecodePacked(data []byte) error {
	type version struct {
		CustomResourceDefinitionVersion
		Schema *struct {
			OpenAPIV3Schema json.RawMessage `json:"openAPIV3Schema"`
		} `json:"schema"`
	}
	var read struct {
		CustomResourceDefinition
		Spec struct {
			CustomResourceDefinitionSpec
			Versions []version `json:"versions"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	*d = read.CustomResourceDefinition
	d.Spec = read.Spec.CustomResourceDefinitionSpec
	d.Spec.Versions = make([]CustomResourceDefinitionVersion, len(read.Spec.Versions))
	for i, v := range read.Spec.Versions {
		d.Spec.Versions[i] = v.CustomResourceDefinitionVersion
		if v.Schema == nil {
			continue
		}
		schema := &CustomResourceValidation{}
		if s := v.Schema.OpenAPIV3Schema; len(s) > 0 && s[0] == '{' {
			schema.Packed = pack(s)
		}
		d.Spec.Versions[i].Schema = schema
	}
	return nil
}
