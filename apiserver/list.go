package apiserver

import (
	"context"
	"errors"
	"net/http"
	"reflect"

	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listing is the result of a list before it becomes a list object.
type listing struct {
	objects   []runtime.Object // shared
	revision  storage.Revision
	next      string
	remaining *int64
	broken    []storage.Key // keys of records which cannot be decoded
}

func (s *Server) list(q *request) error {
	var o metav1.ListOptions
	if err := decodeQuery(q.r.URL.Query(), &o); err != nil {
		return err
	}
	selected, err := newSelection(q.kind, q.info.Namespace, o.LabelSelector, o.FieldSelector)
	if err != nil {
		return err
	}
	found, err := s.find(q.r.Context(), selected, &o)
	if err != nil {
		return err
	}
	// One broken record must not hide all others; who reads is told which it is.
	for _, key := range found.broken {
		warning(q.w.Header(), "stored object "+string(key)+" cannot be decoded and is left out")
	}
	return s.respondList(q, found)
}

// start turns list options into where the store is to begin.
func (s *Server) start(ctx context.Context, selected *selection, o *metav1.ListOptions) (storage.ListOptions, error) {
	var from storage.ListOptions
	if o.Limit < 0 {
		return from, badRequest("limit must not be negative")
	}
	if o.Continue != "" {
		if o.ResourceVersion != "" && o.ResourceVersion != "0" {
			return from, badRequest("specifying resource version is not allowed when using continue")
		}
		token, err := decodeContinue(o.Continue, selected.prefix)
		from.At, from.After = token.Revision, token.After
		return from, err
	}
	revision, err := parseRevision(o.ResourceVersion)
	if err != nil {
		return from, err
	}
	exact := false
	switch o.ResourceVersionMatch {
	case "":
		exact = o.Limit > 0 && revision > 0 // what Kubernetes did before there was a choice
	case metav1.ResourceVersionMatchExact:
		if exact = true; revision == 0 {
			return from, badRequest("resourceVersionMatch \"Exact\" is forbidden for resourceVersion %q", o.ResourceVersion)
		}
	case metav1.ResourceVersionMatchNotOlderThan:
		if o.ResourceVersion == "" {
			return from, badRequest("resourceVersionMatch is forbidden unless resourceVersion is provided")
		}
	default:
		return from, badRequest("resourceVersionMatch %q is not supported: use Exact or NotOlderThan", o.ResourceVersionMatch)
	}
	if exact {
		from.At = revision
	}
	return from, s.await(ctx, selected.kind, revision)
}

// find lists what is selected, all as of one revision, in as many reads as it
// takes to fill the limit.
func (s *Server) find(ctx context.Context, selected *selection, o *metav1.ListOptions) (*listing, error) {
	from, err := s.start(ctx, selected, o)
	if err != nil {
		return nil, err
	}
	found := &listing{}
	for {
		if from.Limit = int(o.Limit); o.Limit > 0 && !selected.all() {
			from.Limit = max(from.Limit, 500) // few may match: do not read them one by one
		}
		page, err := s.config.Store.List(ctx, selected.prefix, from)
		if err != nil {
			return nil, listError(err, o)
		}
		found.revision, from.At = page.Revision, page.Revision
		for i, record := range page.Records {
			if o.Limit > 0 && len(found.objects) == int(o.Limit) {
				return found, found.resume(selected, page.Records[i-1].Key, page.Remaining+int64(len(page.Records)-i))
			}
			found.add(s, selected, record)
		}
		if page.Remaining == 0 || len(page.Records) == 0 {
			return found, nil
		}
		from.After = page.Records[len(page.Records)-1].Key
		if o.Limit > 0 && len(found.objects) == int(o.Limit) {
			return found, found.resume(selected, from.After, page.Remaining)
		}
	}
}

func (l *listing) add(s *Server, selected *selection, record storage.Record) {
	obj, err := selected.kind.decode(record)
	if err != nil {
		s.config.Log.Error(err, "object left out of list", "key", string(record.Key))
		l.broken = append(l.broken, record.Key)
		return
	}
	if selected.matches(obj) {
		l.objects = append(l.objects, obj)
	}
}

// resume notes where the next page begins. How many remain is known only
// where all are selected.
func (l *listing) resume(selected *selection, after storage.Key, remaining int64) (err error) {
	if selected.all() {
		l.remaining = &remaining
	}
	l.next, err = encodeContinue(l.revision, after)
	return err
}

func listError(err error, o *metav1.ListOptions) error {
	switch {
	case errors.Is(err, storage.ErrCompacted) && o.Continue != "":
		return apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.")
	case errors.Is(err, storage.ErrCompacted):
		return apierrors.NewResourceExpired("The provided resource version is too old: " + o.ResourceVersion)
	case errors.Is(err, storage.ErrFuture) && o.Continue != "":
		return badRequest("continue key is not valid: its revision does not exist")
	}
	return err
}

// listObject copies what was found into a list of the kind's own type. Items
// carry no kind of their own, as in Kubernetes.
func (k *kind) listObject(l *listing) (runtime.Object, error) {
	list := k.NewList()
	list.GetObjectKind().SetGroupVersionKind(k.gvk.GroupVersion().WithKind(k.Kind + "List"))
	if err := fillListMeta(list, l); err != nil {
		return nil, err
	}
	if len(l.objects) > 0 {
		if err := meta.SetList(list, l.objects); err != nil {
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
	var list runtime.Object
	var err error
	switch q.out.shape {
	case asTable:
		list, err = q.kind.table(q, l)
	case asPartial:
		list, err = partialList(l)
	default:
		list, err = q.kind.listObject(l)
	}
	if err != nil {
		return err
	}
	s.write(q.w, q.r, http.StatusOK, q.out, list)
	return nil
}
