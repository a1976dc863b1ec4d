package apiserver

import (
	"net/http"
	"sync"

	"github.com/planekit/planekit/apiserver/internal/reply"
	"github.com/planekit/planekit/apiserver/internal/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A responder sends the answers to requests about resources.
type responder struct{ reply.Writer }

// ready reports whether the response is to show objects as they are kept ready.
func (q *request) ready() bool {
	return q.out.Shape == wire.Whole && q.sub == nil &&
		(q.out.Media == wire.Proto || q.out.Media == wire.JSON && !q.out.Pretty)
}

// buffers holds buffers for single objects.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// respondItem sends one object as it is kept ready.
func (p *responder) respondItem(q *request, i *item) error {
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	data, err := q.kind.document((*pooled)[:0], q.out.Media, i)
	*pooled = data // an object has at most a few MB
	if err != nil {
		return err
	}
	p.Bytes(q.w, q.r, http.StatusOK, q.out.Media, data)
	return nil
}

// respond sends one object in the shape that the client asked for.
func (p *responder) respond(q *request, code int, obj runtime.Object) error {
	switch q.out.Shape {
	case wire.Table:
		t, err := q.kind.tableOf(q, obj)
		if err != nil {
			return err
		}
		obj = t
	case wire.Metadata:
		obj = partial(obj)
	}
	setOlder(q.out, obj)
	if q.out.Shape != wire.Table && q.out.Media != wire.Proto && !q.ownType() {
		obj = shown(obj, q.hiding.is)
	}
	p.Object(q.w, q.r, code, q.out, obj)
	return nil
}

// respondList sends a listing in the shape that the client asked for.
func (p *responder) respondList(q *request, l *listing) error {
	if q.ready() && q.kind.forms.lists()[q.out.Media] {
		b, err := q.kind.listBody(q.out.Media, l)
		if err != nil {
			return err
		}
		p.Body(q.w, q.r, q.out.Media, b)
		return nil
	}
	if q.out == (wire.Output{Media: wire.JSON, Shape: wire.Table}) {
		b, err := q.kind.tableBody(q, l)
		if err != nil {
			return err
		}
		p.Body(q.w, q.r, q.out.Media, b)
		return nil
	}
	if !q.out.Beta && q.out.Shape == wire.Metadata && (q.out.Media == wire.Proto || q.out.Media == wire.JSON && !q.out.Pretty) {
		b, err := q.kind.partialBody(q.out.Media, l)
		if err != nil {
			return err
		}
		p.Body(q.w, q.r, q.out.Media, b)
		return nil
	}
	var list runtime.Object
	var err error
	switch q.out.Shape {
	case wire.Table:
		list, err = q.kind.table(q, l)
	case wire.Metadata:
		if list, err = partialList(l); err == nil && l.hasHidden() && q.out.Media != wire.Proto {
			b, err := q.kind.partialBody(wire.JSON, l)
			if list, err = withHidden(list, b, err); err != nil {
				return err
			}
		}
	default:
		if list, err = q.kind.listObject(l); err == nil && l.hasHidden() && q.out.Media != wire.Proto {
			b, err := q.kind.jsonList(l)
			if list, err = withHidden(list, b, err); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return err
	}
	setOlder(q.out, list)
	p.Object(q.w, q.r, http.StatusOK, q.out, list)
	return nil
}

// setOlder gives a table, or metadata, and what is in it the older version of meta.k8s.io, if the client wants that.
func setOlder(out wire.Output, obj runtime.Object) {
	if !out.Beta || obj == nil {
		return
	}
	kind := obj.GetObjectKind()
	gvk := kind.GroupVersionKind()
	if gvk.Group == metav1.GroupName {
		gvk.Version = "v1beta1"
		kind.SetGroupVersionKind(gvk)
	}
	switch obj := obj.(type) {
	case *metav1.Table:
		for i := range obj.Rows {
			setOlder(out, obj.Rows[i].Object.Object)
		}
	case *metav1.PartialObjectMetadataList:
		for i := range obj.Items {
			setOlder(out, &obj.Items[i])
		}
	}
}
