package printers

import (
	"encoding/json"
	"fmt"
	"io"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Object is any object in its decoded JSON form.
type Object = map[string]any

// Parse decodes an object from JSON and keeps whole numbers whole.
func Parse(data []byte) (Object, error) {
	var o Object
	if err := utiljson.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, fmt.Errorf("not an object: %.20s", data)
	}
	return o, nil
}

// List returns the v1 List in which kubectl shows several objects.
func List(objects ...Object) Object {
	items := make([]any, len(objects))
	for i, o := range objects {
		items[i] = o
	}
	return Object{"apiVersion": "v1", "kind": "List", "items": items, "metadata": Object{"resourceVersion": ""}}
}

// JSON writes o, indented by four spaces.
func JSON(w io.Writer, o Object) error {
	text, err := json.MarshalIndent(shown(o), "", "    ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// YAML writes o.
func YAML(w io.Writer, o Object) error {
	text, err := yaml.Marshal(shown(o))
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// shown returns a copy of o without managedFields in the object and its items.
func shown(o Object) Object {
	c := make(Object, len(o))
	for key, value := range o {
		c[key] = value
	}
	if meta, ok := o["metadata"].(Object); ok {
		m := make(Object, len(meta))
		for key, value := range meta {
			if key != "managedFields" {
				m[key] = value
			}
		}
		c["metadata"] = m
	}
	if items, ok := o["items"].([]any); ok {
		list := make([]any, len(items))
		for i, item := range items {
			list[i] = item
			if object, ok := item.(Object); ok {
				list[i] = shown(object)
			}
		}
		c["items"] = list
	}
	return c
}

// Name writes kind and name, such as deployment.apps/nginx, and then became, such as "created",
// unless it is empty.
func Name(w io.Writer, groupKind, name, became string) error {
	if became != "" {
		became = " " + became
	}
	_, err := fmt.Fprintf(w, "%s/%s%s\n", groupKind, name, became)
	return err
}
