package apiserver

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// partial is an object's metadata alone. It shares the object's maps.
func partial(obj runtime.Object) *metav1.PartialObjectMetadata {
	p := meta.AsPartialObjectMetadata(accessor(obj))
	p.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	return p
}

func partialList(l *listing) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{Items: make([]metav1.PartialObjectMetadata, 0, len(l.items))}
	list.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}
	for _, i := range l.items {
		list.Items = append(list.Items, *partial(i.Object.Object))
	}
	return list, fillListMeta(list, l)
}
