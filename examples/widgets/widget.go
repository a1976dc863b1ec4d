package main

import (
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/kinds/kind"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Widget has a color; the controller says when it has been painted in it.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Color             string `json:"color"`
	Painted           string `json:"painted,omitempty"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	return &Widget{w.TypeMeta, *w.ObjectMeta.DeepCopy(), w.Color, w.Painted}
}

// widgets describes the kind to the server, to the controller and to clients.
var widgets = kind.Define(kind.Kind[*Widget]{
	Group: "example.com", Version: "v1", Kind: "Widget", Plural: "widgets", ShortNames: []string{"wd"}, Namespaced: true,
})

// served returns the resource that the server serves; checks and columns are optional.
func served() apiserver.Resource {
	return apiserver.For(widgets, apiserver.Resource{
		Strategy: checks(), Columns: []apiserver.Column{
			{Name: "Color", Type: "string", Value: func(o runtime.Object) any { return o.(*Widget).Color }},
			{Name: "Painted", Type: "string", Value: func(o runtime.Object) any { return o.(*Widget).Painted }},
		},
	})
}
