package main

import (
	"github.com/planekit/planekit/kinds/kind"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Lamp is a type of one's own, which the server knows as
// lamps.example.com, with a status.
type Lamp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Light `json:"spec"`
	Status            Light `json:"status"`
}

// Light is the wanted or the actual state of a lamp.
type Light struct {
	Lit bool `json:"lit"`
}

var lampKind = kind.Define(kind.Kind[*Lamp]{
	Group: "example.com", Version: "v1", Kind: "Lamp", Plural: "lamps", Namespaced: true,
})

func (l *Lamp) key() string { return l.Namespace + "/" + l.Name }

// with returns the lamp with another status. What an informer has is shared with
// others: it is never changed.
func (l *Lamp) with(status Light) *Lamp {
	changed := *l
	changed.Status = status
	return &changed
}

// DeepCopyObject implements runtime.Object.
func (l *Lamp) DeepCopyObject() runtime.Object {
	return &Lamp{l.TypeMeta, *l.ObjectMeta.DeepCopy(), l.Spec, l.Status}
}
