package initializer

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// object is an encoded object with the fields of it that the loop needs.
type object struct {
	data []byte
	meta struct {
		Namespace, Name string
		Initializers    *state
	}
}

// state is metadata.initializers.
type state struct {
	Pending []pending      `json:"pending"`
	Result  *metav1.Status `json:"result,omitempty"`
}

type pending struct {
	Name string `json:"name"`
}

func read(data []byte) (*object, error) {
	o := &object{data: data}
	envelope := struct{ Metadata any }{&o.meta}
	return o, json.Unmarshal(data, &envelope)
}

// waitsFor reports whether the named initializer must act now.
func (o *object) waitsFor(name string) bool {
	i := o.meta.Initializers
	return i != nil && i.Result == nil && len(i.Pending) > 0 && i.Pending[0].Name == name
}

func (o *object) into(typed any) error { return json.Unmarshal(o.data, typed) }

// initialized returns the encoding of typed with o's initializers except the first pending one.
func (o *object) initialized(typed any) ([]byte, error) {
	data, err := json.Marshal(typed)
	if err != nil {
		return nil, err
	}
	return withInitializers(data, state{Pending: append([]pending{}, o.meta.Initializers.Pending[1:]...)})
}

// refused returns the encoding of o with a failed initialization.
func (o *object) refused(why metav1.Status) ([]byte, error) {
	why.Status = metav1.StatusFailure // the only status of a refusal
	return withInitializers(o.data, state{o.meta.Initializers.Pending, &why})
}

// withInitializers replaces the initializers of an encoded object and keeps all else as it is.
func withInitializers(data []byte, s state) ([]byte, error) {
	var obj, meta map[string]json.RawMessage
	if err := json.Unmarshal(data, &obj); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(obj["metadata"], &meta); err != nil {
		return nil, err
	}
	var err error
	if meta["initializers"], err = json.Marshal(s); err != nil {
		return nil, err
	}
	if obj["metadata"], err = json.Marshal(meta); err != nil {
		return nil, err
	}
	return json.Marshal(obj)
}
