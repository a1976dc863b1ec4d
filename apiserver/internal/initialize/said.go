package initialize

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/internal/jsonpatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// Said holds what a request says of the field. A client whose types do not have the field says
// nothing when it sends an object back, which must not initialize the object. So only a request
// that has the field, possibly empty or null, changes it. A patch that removes it has it.
type Said struct {
	Said bool
	// State is nil if none are pending and none has failed.
	State *State
}

var fieldName = []byte("initializers")

// Mentioned reports whether data may say something of the field.
func Mentioned(data []byte) bool { return bytes.Contains(data, fieldName) }

// Read returns what an object says, as JSON. Its errors are the client's.
func Read(data []byte) (Said, error) {
	if !Mentioned(data) {
		return Said{}, nil
	}
	var obj struct {
		Metadata struct {
			Initializers json.RawMessage `json:"initializers"`
		} `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &obj); err != nil {
		return Said{}, fmt.Errorf("the body of the request could not be read: %w", err)
	}
	return readField(obj.Metadata.Initializers)
}

func readField(text json.RawMessage) (Said, error) {
	if text == nil {
		return Said{}, nil
	}
	s := &State{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, s); err != nil {
		return Said{}, fmt.Errorf("metadata.initializers could not be read: %w", err)
	}
	if len(s.Pending) == 0 && s.Result == nil {
		s = nil
	}
	return Said{true, s}, nil
}

// Known returns unknown, the fields that a type does not have, without this field, if it was
// said.
func (s Said) Known(unknown []error) []error {
	if !s.Said {
		return unknown
	}
	return slices.DeleteFunc(unknown, func(err error) bool {
		return strings.Contains(err.Error(), `unknown field "metadata.initializers"`)
	})
}

// Patch removes the field from a merge patch, strategic or not, and returns the remaining patch
// and what it makes of s, with lists of at most depth levels.
func (s *State) Patch(ctx context.Context, patch []byte, strategic bool, depth int) ([]byte, Said, error) {
	var top, meta map[string]json.RawMessage
	if !Mentioned(patch) || json.Unmarshal(patch, &top) != nil || json.Unmarshal(top["metadata"], &meta) != nil {
		return patch, Said{}, nil // an invalid patch fails when it is applied
	}
	change, ok := meta["initializers"]
	if !ok {
		return patch, Said{}, nil
	}
	delete(meta, "initializers")
	rest, err := json.Marshal(meta)
	if err != nil {
		return nil, Said{}, err
	}
	top["metadata"] = rest
	if patch, err = json.Marshal(top); err != nil {
		return nil, Said{}, err
	}
	result := change
	if string(change) != "null" {
		if result, err = s.merge(ctx, change, strategic, depth); err != nil {
			return nil, Said{}, err
		}
	}
	said, err := readField(result)
	return patch, said, err
}

func (s *State) merge(ctx context.Context, change []byte, strategic bool, depth int) (result []byte, err error) {
	original := []byte("{}")
	if s != nil {
		if original, err = json.Marshal(s); err != nil {
			return nil, err
		}
	}
	if strategic {
		result, err = strategicpatch.StrategicMergePatch(original, change, State{})
	} else {
		result, err = jsonpatch.Merge(ctx, original, change, depth)
	}
	if err != nil {
		return nil, fmt.Errorf("error applying patch to metadata.initializers: %w", err)
	}
	return result, nil
}

// ReadPatched returns what a JSON patch, which was applied to the whole object with s, has made
// of the field.
func (s *State) ReadPatched(result []byte) (Said, error) {
	said, err := Read(result)
	if err == nil && s != nil {
		said.Said = true // the patch has removed it, if it is not there
	}
	return said, err
}
