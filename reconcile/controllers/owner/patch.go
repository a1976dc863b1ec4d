package owner

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MetadataPatch is a JSON merge patch of metadata. The UID and the resource version make the patch
// fail if the object has changed. Nil fields are not changed.
type MetadataPatch struct {
	Metadata struct {
		UID             types.UID                `json:"uid"`
		ResourceVersion string                   `json:"resourceVersion"`
		OwnerReferences *[]metav1.OwnerReference `json:"ownerReferences,omitempty"`
		Finalizers      *[]string                `json:"finalizers,omitempty"`
	} `json:"metadata"`
}

// NewMetadataPatch returns a patch of object that changes nothing yet.
func NewMetadataPatch(object metav1.Object) (p MetadataPatch) {
	p.Metadata.UID, p.Metadata.ResourceVersion = object.GetUID(), object.GetResourceVersion()
	return p
}

// Bytes returns the patch in JSON.
func (p MetadataPatch) Bytes() []byte {
	data, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("owner: metadata patch: %v", err)) // strings and booleans only
	}
	return data
}

// ReferencesPatch returns a patch that replaces the owner references of object.
func ReferencesPatch(object metav1.Object, references []metav1.OwnerReference) []byte {
	p := NewMetadataPatch(object)
	if references == nil {
		references = []metav1.OwnerReference{}
	}
	p.Metadata.OwnerReferences = &references
	return p.Bytes()
}

// FinalizerPatch returns a patch that removes one finalizer of object.
func FinalizerPatch(object metav1.Object, finalizer string) []byte {
	p := NewMetadataPatch(object)
	left := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == finalizer })
	if left == nil {
		left = []string{}
	}
	p.Metadata.Finalizers = &left
	return p.Bytes()
}

// Without returns the references except those to the owner with a UID.
func Without(references []metav1.OwnerReference, uid types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(references), func(o metav1.OwnerReference) bool { return o.UID == uid })
}
