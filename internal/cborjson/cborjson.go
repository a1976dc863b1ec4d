// Package cborjson converts CBOR to JSON, within limits, and back. What CBOR means for Kubernetes' objects,
// such as the times and the byte strings in it, is up to apimachinery's serializer.
//
//	text, err := cborjson.ToJSON(body, cborjson.Limits{Depth: 256, Items: 100_000, Text: 3 << 20})
package cborjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// selfDescribed is the tag that begins every document of Kubernetes
// (https://www.rfc-editor.org/rfc/rfc8949.html#name-self-described-cbor).
var selfDescribed = []byte{0xd9, 0xd9, 0xf7}

// Limits limits what is converted.
type Limits struct {
	// Depth is the maximum number of levels of arrays, maps and tags.
	Depth int
	// Items is the maximum number of data items: numbers, strings, keys, arrays, maps and tags.
	Items int
	// Text is the maximum number of bytes of all text in JSON, where a byte may take six.
	Text int
}

// ErrTooMuch means that a document has too many items or levels.
var ErrTooMuch = errors.New("beyond the limits of CBOR")

// ErrTooLong means that the text of a document would be too long in JSON.
var ErrTooLong = errors.New("its text is too long in JSON")

// ToJSON returns a document of one data item as JSON. Nothing is built of one that is beyond its limits.
func ToJSON(data []byte, limits Limits) ([]byte, error) {
	if err := check(data, limits); err != nil {
		return nil, err
	}
	var tree any
	if err := direct.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	left := limits.Text
	if err := checkText(tree, &left); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false) // which would make it up to six times as long
	err := to.Encode(tree)
	return out.Bytes(), err
}

// FromJSON returns a JSON text as CBOR: the keys of maps are sorted, and numbers take as few bytes as they can.
func FromJSON(text []byte) ([]byte, error) {
	var tree any
	if err := utiljson.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	data, err := direct.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(selfDescribed), data...), nil
}

// checkText looks for text that is not UTF-8, which byte strings may hold, and JSON may not. It takes the length of
// all text from left.
func checkText(tree any, left *int) error {
	switch v := tree.(type) {
	case string:
		if *left -= lengthInJSON(v); *left < 0 {
			return ErrTooLong
		}
		if !utf8.ValidString(v) {
			return fmt.Errorf("the text %q is not valid UTF-8", v)
		}
	case []any:
		for _, one := range v {
			if err := checkText(one, left); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, one := range v {
			if err := checkText(key, left); err != nil {
				return err
			}
			if err := checkText(one, left); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}

// lengthInJSON returns the most that a text takes in JSON, where control characters may take six bytes. Only of U+2028
// and U+2029 it counts three of six.
func lengthInJSON(text string) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ':
			n += 5
		case c == '"', c == '\\':
			n++
		}
	}
	return n
}
