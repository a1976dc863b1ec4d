package apiserver

import (
	"context"
	"errors"

	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
