package main

import (
	"github.com/planekit/planekit/apiserver"
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

// WidgetList is the type of a list of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Widget `json:"items"`
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := &WidgetList{l.TypeMeta, *l.ListMeta.DeepCopy(), nil}
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Widget))
	}
	return c
}

// widgets is all that the server has to know; checks is optional, as are the
// columns.
func widgets() apiserver.Resource {
	return apiserver.Resource{
		Group: "example.com", Version: "v1", Kind: "Widget", Plural: "widgets", ShortNames: []string{"wd"}, Namespaced: true,
		New: func() runtime.Object { return &Widget{} }, NewList: func() runtime.Object { return &WidgetList{} },
		Strategy: checks(), Columns: []apiserver.Column{
			{Name: "Color", Type: "string", Value: func(o runtime.Object) any { return o.(*Widget).Color }},
			{Name: "Painted", Type: "string", Value: func(o runtime.Object) any { return o.(*Widget).Painted }},
		},
	}
}
