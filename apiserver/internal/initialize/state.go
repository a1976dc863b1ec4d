// Package initialize holds the metadata.initializers of Kubernetes 1.7 to 1.13: which
// initializers have yet to act on a new object before all clients see it.
//
// Go types no longer have the field. So a [State] is kept beside its object: in front of the
// object in storage ([Prepend], [Cut]), and inserted into the JSON that is sent ([Show]). A
// request says something about it ([Read], [State.Patch], [State.ReadPatched]) or leaves it as it is, and
// [CheckNew] and [CheckNext] say which changes are valid.
package initialize

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// State is the field. A nil pointer is that of an initialized object.
type State struct {
	// Pending are the initializers that have not acted, in order; the first one may.
	Pending []Initializer `json:"pending" patchStrategy:"merge" patchMergeKey:"name"`
	// Result, if set, is why the object could not be initialized.
	Result *metav1.Status `json:"result,omitempty"`
}

// An Initializer is one entry of the field.
type Initializer struct {
	Name string `json:"name"`
}

// New returns the state of an object that waits for names; nil if there are none.
func New(names []string) *State {
	if len(names) == 0 {
		return nil
	}
	s := &State{Pending: make([]Initializer, len(names))}
	for i, name := range names {
		s.Pending[i].Name = name
	}
	return s
}

// Failed reports whether an initializer has given up.
func (s *State) Failed() bool { return s != nil && s.Result != nil }

// Names returns the names of the pending initializers.
func (s *State) Names() []string {
	if s == nil {
		return nil
	}
	names := make([]string, len(s.Pending))
	for i, one := range s.Pending {
		names[i] = one.Name
	}
	return names
}

// magic begins the stored form of an object with a state. Their length, the state as JSON and
// the object follow. All other stored objects begin otherwise, as JSON or protobuf.
var magic = []byte("initializers\x00")

// Prepend returns what is stored for an object with state s, whose own stored form is data.
func Prepend(s *State, data []byte) ([]byte, error) {
	if s == nil {
		return data, nil
	}
	head, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	out := binary.AppendUvarint(bytes.Clone(magic), uint64(len(head)))
	return append(append(out, head...), data...), nil
}

// Cut splits a stored value into the state and the object's own stored form.
func Cut(value []byte) (*State, []byte, error) {
	rest, ok := bytes.CutPrefix(value, magic)
	if !ok {
		return nil, value, nil
	}
	size, width := binary.Uvarint(rest)
	if width <= 0 || size > uint64(len(rest)-width) {
		return nil, nil, errors.New("its initializers are cut off")
	}
	rest = rest[width:]
	s := &State{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(rest[:size], s); err != nil {
		return nil, nil, fmt.Errorf("its initializers: %w", err)
	}
	return s, rest[size:], nil
}

// shown is an object whose JSON includes its state.
type shown struct {
	runtime.Object
	state *State
}

// Show returns obj in the form in which it is written as JSON while it has state s.
func Show(obj runtime.Object, s *State) runtime.Object {
	if s == nil {
		return obj
	}
	return shown{obj, s}
}

func (o shown) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	return insert(data, o.state)
}

// insert puts s into the metadata of an object written as JSON.
func insert(data []byte, s *State) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	at, empty, err := insideMetadata(data)
	if err != nil {
		return nil, err
	}
	out := append(bytes.Clone(data[:at]), `"initializers":`...)
	if out = append(out, text...); !empty {
		out = append(out, ',')
	}
	return append(out, data[at:]...), nil
}

// insideMetadata returns the position at which the fields of an object's metadata begin.
func insideMetadata(data []byte) (at int, empty bool, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return 0, false, errors.Join(err, errors.New("not a JSON object"))
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return 0, false, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return 0, false, err
		}
		if name != "metadata" {
			continue
		}
		if value[0] != '{' {
			return 0, false, errors.New("metadata is not a JSON object")
		}
		fields := bytes.TrimLeft(value[1:], " \t\r\n")
		return int(d.InputOffset()) - len(value) + 1, fields[0] == '}', nil
	}
	return 0, false, errors.New("no metadata")
}
