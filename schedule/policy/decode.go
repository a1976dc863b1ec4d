package policy

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxSize bounds a file, in bytes.
const maxSize = 1 << 20

// typeMeta says what a file or the arguments of a plugin are.
type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// open returns a file as JSON, if it is of the given kind.
func open(data []byte, want typeMeta) ([]byte, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("the file has %d bytes, more than %d", len(data), maxSize)
	}
	text, err := onlyDocument(data)
	if err != nil {
		return nil, err
	}
	var found typeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(text, &found); err != nil {
		return nil, err
	}
	if found != want {
		return nil, fmt.Errorf("not a %s of %s: apiVersion %q, kind %q", want.Kind, want.APIVersion, found.APIVersion, found.Kind)
	}
	return text, nil
}

// onlyDocument returns the one YAML document of data that is not empty, as JSON.
func onlyDocument(data []byte) ([]byte, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var only []byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) && only == nil {
			return nil, errors.New("the file is empty")
		}
		if errors.Is(err, io.EOF) {
			return only, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, err
		}
		if string(text) == "null" {
			continue
		}
		if only != nil {
			return nil, errors.New("the file has more than one document")
		}
		only = text
	}
}

// decode decodes JSON strictly.
func decode(text []byte, into any) error {
	wrong, err := json.UnmarshalStrict(text, into)
	return cmp.Or(err, errors.Join(wrong...))
}
