package apiserver

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

// initializers is metadata.initializers as Kubernetes 1.7 to 1.13 had it: who has
// yet to act on a new object before it is there for everybody. Go types no
// longer have the field. So it is kept beside the object: in front of it in
// storage, and put into the JSON that is sent. Nothing that has an object alone
// can show it or lose it. A nil pointer is an initialized object.
type initializers struct {
	// Pending are those who have not acted; the first one may.
	Pending []initializer `json:"pending" patchStrategy:"merge" patchMergeKey:"name"`
	// Result, when set, is why the object could not be initialized.
	Result *metav1.Status `json:"result,omitempty"`
}

type initializer struct {
	Name string `json:"name"`
}

// failed reports whether an initializer has given up.
func (i *initializers) failed() bool { return i != nil && i.Result != nil }

// initializersMagic begins the stored form of an object that waits for
// initializers: then come their length, they as JSON, and the object. What is
// stored of any other object begins otherwise, as JSON or protobuf.
var initializersMagic = []byte("initializers\x00")

// encodeWith returns what is stored for obj while it waits for state.
func (k *kind) encodeWith(obj runtime.Object, state *initializers) ([]byte, error) {
	data, err := k.encode(obj)
	if err != nil || state == nil {
		return data, err
	}
	head, err := json.Marshal(state)
	if err != nil {
		return nil, err
	}
	out := binary.AppendUvarint(bytes.Clone(initializersMagic), uint64(len(head)))
	return append(append(out, head...), data...), nil
}

// cutInitializers takes what a stored object waits for off its value.
func cutInitializers(value []byte) (*initializers, []byte, error) {
	rest, ok := bytes.CutPrefix(value, initializersMagic)
	if !ok {
		return nil, value, nil
	}
	size, width := binary.Uvarint(rest)
	if width <= 0 || size > uint64(len(rest)-width) {
		return nil, nil, errors.New("its initializers are cut off")
	}
	rest = rest[width:]
	state := &initializers{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(rest[:size], state); err != nil {
		return nil, nil, fmt.Errorf("its initializers: %w", err)
	}
	return state, rest[size:], nil
}

// uninitialized is an object with its initializers, to be written as JSON.
type uninitialized struct {
	runtime.Object
	state *initializers
}

// shown is obj as it is written as JSON while it waits for state.
func shown(obj runtime.Object, state *initializers) runtime.Object {
	if state == nil {
		return obj
	}
	return uninitialized{obj, state}
}

func (u uninitialized) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	return withInitializers(data, u.state)
}

// withInitializers puts state into the metadata of an object written as JSON.
func withInitializers(data []byte, state *initializers) ([]byte, error) {
	text, err := json.Marshal(state)
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

// insideMetadata finds where the fields of an object's metadata begin.
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

// raw is an object whose JSON is ready.
type raw struct {
	runtime.Object
	data []byte
}

func (r raw) MarshalJSON() ([]byte, error) { return r.data, nil }

// waiting reports whether an item of the listing waits for initializers.
func (l *listing) waiting() bool {
	for _, i := range l.items {
		if i.Object.initializers != nil {
			return true
		}
	}
	return false
}

// with is list, of l, as b has it: with the initializers of its items.
func (l *listing) with(list runtime.Object, b *body, err error) (runtime.Object, error) {
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	b.writeTo(&data)
	return raw{list, data.Bytes()}, nil
}
