package apiserver

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/planekit/planekit/internal/jsonpatch"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// sent is what a request says of metadata.initializers. A client whose types do
// not have the field says nothing when it sends an object back, which must not
// look as if it had initialized it: only a request that has the field, empty or
// null perhaps, changes it. A patch that removes it has it.
type sent struct {
	said  bool
	state *initializers // nil where none are pending and none has failed
}

var initializersName = []byte("initializers")

// sentIn reads what an object says, as JSON.
func sentIn(data []byte) (sent, error) {
	if !bytes.Contains(data, initializersName) {
		return sent{}, nil
	}
	var obj struct {
		Metadata struct {
			Initializers json.RawMessage `json:"initializers"`
		} `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &obj); err != nil {
		return sent{}, badRequest("the body of the request could not be read: %v", err)
	}
	return readSent(obj.Metadata.Initializers)
}

func readSent(text json.RawMessage) (sent, error) {
	if text == nil {
		return sent{}, nil
	}
	state := &initializers{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, state); err != nil {
		return sent{}, badRequest("metadata.initializers could not be read: %v", err)
	}
	if len(state.Pending) == 0 && state.Result == nil {
		state = nil
	}
	return sent{true, state}, nil
}

// hear notes what the body of a request for an object says of its initializers.
func (q *request) hear(s *Server, data []byte, media string) (err error) {
	q.sent = sent{}
	if s.config.Initializers == nil || q.sub != nil || !bytes.Contains(data, initializersName) {
		return nil
	}
	switch media {
	case mediaYAML:
		if data, _, err = yamlToJSON(q.r.Context(), data, false); err != nil {
			return badRequest("error decoding YAML: %v", err)
		}
	case mediaProto: // which does not have the field
		return nil
	}
	q.sent, err = sentIn(data)
	return err
}

// unknownBut leaves out of the fields that a type does not know the one that the
// server has read itself.
func (q *request) unknownBut(unknown []error) []error {
	if !q.sent.said {
		return unknown
	}
	return slices.DeleteFunc(unknown, func(err error) bool {
		return strings.Contains(err.Error(), `unknown field "metadata.initializers"`)
	})
}

// hearPatch takes what a patch by fields says of the initializers out of it, and
// notes what becomes of them.
func (q *request) hearPatch(media types.PatchType, patch []byte) ([]byte, error) {
	var top, meta map[string]json.RawMessage
	if !bytes.Contains(patch, initializersName) || json.Unmarshal(patch, &top) != nil || json.Unmarshal(top["metadata"], &meta) != nil {
		return patch, nil // what is wrong with it is told by who applies it
	}
	change, ok := meta["initializers"]
	if !ok {
		return patch, nil
	}
	delete(meta, "initializers")
	rest, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	top["metadata"] = rest
	if patch, err = json.Marshal(top); err != nil {
		return nil, err
	}
	result := change
	if string(change) != "null" {
		if result, err = q.patchedInitializers(media, change); err != nil {
			return nil, err
		}
	}
	q.sent, err = readSent(result)
	return patch, err
}

func (q *request) patchedInitializers(media types.PatchType, change []byte) ([]byte, error) {
	original := []byte("{}")
	if q.was != nil {
		var err error
		if original, err = json.Marshal(q.was); err != nil {
			return nil, err
		}
	}
	var result []byte
	var err error
	if media == types.StrategicMergePatchType {
		result, err = strategicpatch.StrategicMergePatch(original, change, initializers{})
	} else {
		result, err = jsonpatch.Merge(q.r.Context(), original, change, maxDepth)
	}
	if err != nil {
		return nil, badRequest("error applying patch to metadata.initializers: %v", err)
	}
	return result, nil
}

// hearResult notes what a JSON patch has made of the initializers that the whole
// object was given to it with.
func (q *request) hearResult(result []byte) (err error) {
	q.sent, err = sentIn(result)
	if err == nil && !q.sent.said && q.was != nil {
		q.sent.said = true // it has taken them out
	}
	return err
}

// hearApplied takes the initializers out of an applied configuration.
func (q *request) hearApplied(s *Server, patch *unstructured.Unstructured) error {
	q.sent = sent{}
	change, ok, err := unstructured.NestedFieldNoCopy(patch.Object, "metadata", "initializers")
	if s.config.Initializers == nil || q.sub != nil || !ok || err != nil {
		return nil // metadata has been looked at
	}
	unstructured.RemoveNestedField(patch.Object, "metadata", "initializers")
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	q.sent, err = readSent(text)
	return err
}
