package apiserver

import (
	"net/http"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listObject copies what was found into a list of the kind's own type. Items
// carry no kind of their own, as in Kubernetes.
func (k *kind) listObject(l *listing) (runtime.Object, error) {
	list := k.NewList()
	list.GetObjectKind().SetGroupVersionKind(k.gvk.GroupVersion().WithKind(k.Kind + "List"))
	if err := fillListMeta(list, l); err != nil {
		return nil, err
	}
	if len(l.items) > 0 {
		objects := make([]runtime.Object, len(l.items))
		for i := range l.items {
			objects[i] = l.items[i].Object.Object
		}
		if err := meta.SetList(list, objects); err != nil {
			return nil, err
		}
		return list, meta.EachListItem(list, func(item runtime.Object) error {
			item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			return nil
		})
	}
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, err
	}
	slice := reflect.ValueOf(items).Elem()
	slice.Set(reflect.MakeSlice(slice.Type(), 0, 0)) // [] rather than null
	return list, nil
}

func fillListMeta(list any, l *listing) error {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	m.SetResourceVersion(formatRevision(l.revision))
	m.SetContinue(l.next)
	m.SetRemainingItemCount(l.remaining)
	return nil
}

// respondList sends a listing in the shape that the client asked for.
func (s *Server) respondList(q *request, l *listing) error {
	if q.ready() && q.kind.wire.lists()[q.out.media] {
		b, err := q.kind.listBody(q.out.media, l)
		if err != nil {
			return err
		}
		s.writeBody(q.w, q.r, q.out.media, b)
		return nil
	}
	if q.out == (output{mediaJSON, asTable}) && !wantsPretty(q.r) {
		b, err := q.kind.tableBody(q, l)
		if err != nil {
			return err
		}
		s.writeBody(q.w, q.r, q.out.media, b)
		return nil
	}
	if q.out.shape == asPartial && q.out.media != mediaYAML && !wantsPretty(q.r) {
		b, err := q.kind.partialBody(q.out.media, l)
		if err != nil {
			return err
		}
		s.writeBody(q.w, q.r, q.out.media, b)
		return nil
	}
	var list runtime.Object
	var err error
	switch q.out.shape {
	case asTable:
		list, err = q.kind.table(q, l)
	case asPartial:
		if list, err = partialList(l); err == nil && l.waiting() && q.out.media != mediaProto {
			b, err := q.kind.partialBody(mediaJSON, l)
			if list, err = l.with(list, b, err); err != nil {
				return err
			}
		}
	default:
		if list, err = q.kind.listObject(l); err == nil && l.waiting() && q.out.media != mediaProto {
			b, err := q.kind.jsonList(l)
			if list, err = l.with(list, b, err); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return err
	}
	s.write(q.w, q.r, http.StatusOK, q.out, list)
	return nil
}
