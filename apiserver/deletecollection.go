package apiserver

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// deleteCollection deletes what a list with the same options would show, one
// after another, and answers with the list of it. Objects which somebody else
// deletes meanwhile are not missed.
func (s *Server) deleteCollection(q *request) error {
	var lo metav1.ListOptions
	if err := decodeQuery(q.r.URL.Query(), &lo); err != nil {
		return err
	}
	o, err := q.deleteOptions(s)
	if err != nil {
		return err
	}
	selected, err := newSelection(q.kind, q.info.Namespace, lo.LabelSelector, lo.FieldSelector)
	if err != nil {
		return err
	}
	selected.uninitialized = true // else they would outlive their namespace
	found, err := s.find(q.r.Context(), selected, &lo)
	if err != nil {
		return err
	}
	deleted := &listing{revision: found.revision, next: found.next, remaining: found.remaining}
	for _, i := range found.items {
		obj := i.Object.Object
		m := accessor(obj)
		one := *q
		one.info.Namespace, one.info.Name = m.GetNamespace(), m.GetName()
		last, _, err := s.remove(&one, withUID(o, obj))
		if apierrors.IsNotFound(err) || (o.Preconditions == nil && apierrors.IsConflict(err)) {
			continue // gone, and perhaps a successor in its place
		}
		if err != nil {
			return err
		}
		deleted.items = append(deleted.items, asItemWith(last, one.was))
	}
	return s.respondList(q, deleted)
}

// withUID guards a deletion against hitting a successor of the same name.
func withUID(o *metav1.DeleteOptions, obj runtime.Object) *metav1.DeleteOptions {
	one := o.DeepCopy()
	if one.Preconditions == nil {
		one.Preconditions = &metav1.Preconditions{}
	}
	if one.Preconditions.UID == nil {
		uid := accessor(obj).GetUID()
		one.Preconditions.UID = &uid
	}
	return one
}
