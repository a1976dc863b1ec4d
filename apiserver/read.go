package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/internal/continuation"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// futureTimeout is how long a read waits for a revision that the store has not
// reached, as in kube-apiserver.
const futureTimeout = 3 * time.Second

func (s *Server) get(q *request) error {
	var o metav1.GetOptions
	if err := requestline.Options(q.r.URL.Query(), &o); err != nil {
		return err
	}
	i, err := s.reader.read(q.r.Context(), q, o.ResourceVersion)
	if err != nil {
		return err
	}
	if !q.ready() {
		q.hiding.is = i.Object.hidden
		return s.responder.respond(q, http.StatusOK, i.Object.Object)
	}
	return s.responder.respondItem(q, i)
}

// getStatus serves the object under the path of one of its parts.
func (s *Server) getStatus(q *request) error {
	i, err := s.reader.read(q.r.Context(), q, "")
	if err != nil {
		return err
	}
	q.hiding.is = i.Object.hidden
	return s.responder.respond(q, http.StatusOK, i.Object.Object)
}

// getView serves what v shows of the object.
func (s *Server) getView(q *request, v View) error {
	i, err := s.reader.read(q.r.Context(), q, "")
	if err != nil {
		return err
	}
	if v.Readable != nil {
		if err := v.Readable(i.Object.Object); err != nil {
			return err
		}
	}
	obj, err := q.show(v.From, i.Object.Object)
	if err != nil {
		return err
	}
	return s.responder.respond(q, http.StatusOK, obj)
}

// show returns what from, a function of a View, shows of obj.
func (q *request) show(from func(runtime.Object) (runtime.Object, error), obj runtime.Object) (runtime.Object, error) {
	view, err := from(obj)
	if err != nil {
		return nil, err
	}
	view.GetObjectKind().SetGroupVersionKind(q.bodyKind())
	return view, nil
}

// A reader reads objects as the caches have them, and from the store where a cache does not reach.
type reader struct {
	store storage.Store
	feed  *cache.Feed
	log   logr.Logger
}

// read returns the request's object, not older than version; where that is
// empty, with every change that was acknowledged before. It is shared: do not
// change it.
func (d *reader) read(ctx context.Context, q *request, version string) (*item, error) {
	var i *item
	var err error
	if version == "" {
		i, err = q.kind.cache.Get(ctx, q.key())
	} else if err = d.await(ctx, q.kind, version); err == nil {
		var found bool
		if i, found = q.kind.cache.Peek(q.key()); !found {
			err = storage.ErrNotFound
		}
	}
	if errors.Is(err, cache.ErrBehind) {
		var record storage.Record
		if record, err = d.store.Get(ctx, q.key(), 0); err == nil {
			i, err = q.kind.item(record)
		}
	}
	if err != nil {
		return nil, storageError(err, q.kind.gr, q.info.Name)
	}
	if i.Err == nil && i.Object.hidden != nil && !q.includesHidden() {
		return nil, apierrors.NewNotFound(q.kind.gr, q.info.Name)
	}
	if q.kind.converter != nil {
		all, err := q.kind.converted(ctx, []*item{i})
		if err != nil {
			return nil, err
		}
		i = all[0]
	}
	return i, i.Err
}

// await waits until the cache is not older than version. Revisions come from the
// store, so one that it has not reached is made up, or from a copy which is
// ahead of it and about to be caught up with.
func (d *reader) await(ctx context.Context, k *servedKind, version string) error {
	revision, err := parseRevision(version)
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, futureTimeout)
	defer cancel()
	if err = k.cache.Wait(soon, revision); ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	now, err := d.feed.Now(ctx)
	if err == nil && now >= revision {
		return cache.ErrBehind
	}
	return errors.Join(err, tooLargeRevision(revision, now))
}

func tooLargeRevision(want, have storage.Revision) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, have), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

// listing is the result of a list before it becomes a list object.
type listing struct {
	items     []*item // shared
	revision  storage.Revision
	next      string
	remaining *int64
	broken    []storage.Key // keys of records which cannot be decoded
}

// Len, Revision and Created make a listing the items of a body.
func (l *listing) Len() int                        { return len(l.items) }
func (l *listing) Revision(i int) storage.Revision { return l.items[i].Revision }
func (l *listing) Created(i int) storage.Revision  { return l.items[i].Created }

func (s *Server) list(q *request) error {
	var o metav1.ListOptions
	if err := requestline.Options(q.r.URL.Query(), &o); err != nil {
		return err
	}
	o.Limit = max(o.Limit, 0) // a negative limit is none
	selected, err := newSelection(q.kind, q.info.Namespace, o.LabelSelector, o.FieldSelector)
	if err != nil {
		return err
	}
	selected.hidden = q.includesHidden()
	found, err := s.reader.find(q.r.Context(), selected, &o)
	if err != nil {
		return err
	}
	// One broken record must not hide all others. A warning names it.
	for _, key := range found.broken {
		q.warn("stored object " + string(key) + " cannot be decoded and is left out")
	}
	return s.responder.respondList(q, found)
}

// listFrom says which state a list is of, and where in it the list begins.
type listFrom struct {
	// at is the revision of the state, where it must be that one.
	at storage.Revision
	// version is the resourceVersion that the state must not be older than; empty
	// is the newest there is.
	version string
	after   storage.Key
}

// listStart implements the table of
// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list.
func listStart(selected *selection, o *metav1.ListOptions) (listFrom, error) {
	from := listFrom{version: o.ResourceVersion}
	if o.Continue != "" {
		if o.ResourceVersion != "" && o.ResourceVersion != "0" {
			return from, badRequest("specifying resource version is not allowed when using continue")
		}
		token, err := continuation.Decode(o.Continue, selected.prefix)
		return listFrom{at: max(token.Revision, 0), after: token.After}, err
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
		from.at = revision
	}
	return from, nil
}

// find lists what is selected, all as of one revision: from the cache, or from
// the store where the cache does not reach back so far.
func (d *reader) find(ctx context.Context, selected *selection, o *metav1.ListOptions) (*listing, error) {
	from, err := listStart(selected, o)
	if err != nil {
		return nil, err
	}
	if from.version != "" {
		err = d.await(ctx, selected.kind, from.version)
	}
	var state cache.Snapshot[*object]
	if err == nil {
		state, err = snapshot(ctx, selected.kind, from)
	}
	if from.at > 0 && d.forgotten(ctx, selected.kind, from.at) {
		// The cache still has it if no object of the kind has changed since. It ends with the store's history, as in Kubernetes.
		return nil, listError(storage.ErrCompacted, from, o)
	}
	switch {
	case err == nil:
		if field, value, ok := selected.field(); ok && o.Limit == 0 && from.at == 0 {
			return selected.pickMatching(d, field, value), nil
		}
		if selected.kind.converter != nil {
			return selected.pickConverted(ctx, d, state, from, int(o.Limit))
		}
		return selected.pick(d, state, from, int(o.Limit))
	case errors.Is(err, cache.ErrBehind), errors.Is(err, storage.ErrCompacted), errors.Is(err, storage.ErrFuture):
		return d.findStored(ctx, selected, from, o)
	}
	return nil, err
}

// forgotten reports whether the store no longer has a revision. It does not if the store cannot be asked.
func (d *reader) forgotten(ctx context.Context, k *servedKind, at storage.Revision) bool {
	_, err := d.store.Get(ctx, storage.Key(k.root), at)
	return errors.Is(err, storage.ErrCompacted)
}

// snapshot returns the state that from is about.
func snapshot(ctx context.Context, k *servedKind, from listFrom) (cache.Snapshot[*object], error) {
	switch {
	case from.at > 0:
		if err := k.cache.Wait(ctx, 0); err != nil {
			return cache.Snapshot[*object]{}, err
		}
		return k.cache.At(from.at)
	case from.version == "":
		return k.cache.Current(ctx)
	}
	return k.cache.Latest(), nil
}

// pick lists what is selected of a state.
func (selected *selection) pick(d *reader, state cache.Snapshot[*object], from listFrom, limit int) (*listing, error) {
	found := &listing{revision: state.Revision}
	if limit == 0 && selected.all() && string(selected.prefix) == selected.kind.root {
		found.items = make([]*item, 0, state.Len())
	}
	var more int64
	for i := range state.All(selected.prefix, from.after) {
		if limit == 0 || len(found.items) < limit {
			found.add(d, selected, i)
			continue
		}
		if i.Err != nil || !selected.shows(i.Object) {
			continue
		}
		if more++; !selected.all() {
			break
		}
	}
	if more == 0 {
		return found, nil
	}
	return found, found.resume(selected, found.items[limit-1].Key, more)
}

// pickMatching lists what is selected of the newest state, where a field tells.
func (selected *selection) pickMatching(d *reader, field, value string) *listing {
	items, revision := selected.kind.cache.Matching(field, value)
	found := &listing{revision: revision, items: make([]*item, 0, len(items))}
	for _, i := range items {
		if strings.HasPrefix(string(i.Key), string(selected.prefix)) {
			found.add(d, selected, i)
		}
	}
	return found
}

// findStored lists from the store, in as many reads as it takes to fill the
// limit.
func (d *reader) findStored(ctx context.Context, selected *selection, from listFrom, o *metav1.ListOptions) (*listing, error) {
	found, next := &listing{}, storage.ListOptions{At: from.at, After: from.after}
	for {
		if next.Limit = int(o.Limit); o.Limit > 0 && !selected.all() {
			next.Limit = max(next.Limit, 500) // few may match: do not read them one by one
		}
		page, err := d.store.List(ctx, selected.prefix, next)
		if err != nil {
			return nil, listError(err, from, o)
		}
		found.revision, next.At = page.Revision, page.Revision
		items, err := selected.kind.convertedRecords(ctx, page.Records)
		if err != nil {
			return nil, err
		}
		for i := range page.Records {
			if o.Limit > 0 && len(found.items) == int(o.Limit) {
				return found, found.resume(selected, page.Records[i-1].Key, page.Remaining+int64(len(page.Records)-i))
			}
			found.add(d, selected, items[i])
		}
		if page.Remaining == 0 || len(page.Records) == 0 {
			return found, nil
		}
		next.After = page.Records[len(page.Records)-1].Key
		if o.Limit > 0 && len(found.items) == int(o.Limit) {
			return found, found.resume(selected, next.After, page.Remaining)
		}
	}
}

func (l *listing) add(d *reader, selected *selection, i *item) {
	if i.Err != nil {
		d.log.Error(i.Err, "object left out of list", "key", string(i.Key))
		l.broken = append(l.broken, i.Key)
		return
	}
	if selected.shows(i.Object) {
		l.items = append(l.items, i)
	}
}

// resume notes where the next page begins. How many remain is known only
// where all are selected.
func (l *listing) resume(selected *selection, after storage.Key, remaining int64) (err error) {
	if selected.all() {
		l.remaining = &remaining
	}
	l.next, err = continuation.Encode(l.revision, after)
	return err
}

func listError(err error, from listFrom, o *metav1.ListOptions) error {
	switch {
	case errors.Is(err, storage.ErrCompacted) && o.Continue != "":
		return continueExpired(from.after)
	case errors.Is(err, storage.ErrCompacted):
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	case errors.Is(err, storage.ErrFuture) && o.Continue != "":
		return badRequest("continue key is not valid: its revision does not exist")
	}
	return err
}

// continueExpired comes with a token for those whom the rest as it is now
// serves too, as in Kubernetes.
func continueExpired(after storage.Key) error {
	next, err := continuation.Encode(continuation.Newest, after)
	if err != nil {
		return err
	}
	expired := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve " +
		"the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that " +
		"were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	expired.ErrStatus.ListMeta.Continue = next
	return expired
}
