package client

import (
	"bytes"
	"context"
	"net/url"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// List reads all objects of a namespace, or of all namespaces if namespace is empty, and returns
// them with their common revision. With a Limit it fetches them in pages of that size; the result
// still has all of them, as of one revision. If the server forgets that revision between two pages,
// List starts over without pages.
func (r Resource[T]) List(ctx context.Context, namespace string, o metav1.ListOptions) ([]T, string, error) {
	var objects []T
	revision, err := r.list(ctx, namespace, o, nil, func() { objects = nil }, func(some []T) {
		objects = append(objects, some...)
	})
	if err != nil {
		return nil, "", err
	}
	return objects, revision, nil
}

// list reads what List does, skips the objects that known reports, and passes the others on while
// the next page is being fetched. It calls begin before the first object, and again if it starts
// over.
func (r Resource[T]) list(ctx context.Context, namespace string, o metav1.ListOptions, known func([]byte) bool, begin func(), add func([]T)) (revision string, err error) {
	at, err := r.path(namespace, "")
	if err != nil {
		return "", err
	}
	p := pages{fetch: func(ctx context.Context, o metav1.ListOptions, into *bytes.Buffer) (Response, error) {
		return r.negotiate(ctx, Request{Path: at, Query: query(o), into: into}, nil)
	}}
	ctx, stop := context.WithCancel(ctx)
	defer p.fetching.Wait()
	defer stop()
	begin()
	for p.start(ctx, o); ; {
		response, err := p.wait()
		if apierrors.IsResourceExpired(err) && o.Continue != "" {
			o.Continue, o.Limit = "", 0
			begin()
			p.start(ctx, o)
			continue
		}
		if err != nil {
			return "", err
		}
		meta, items, err := openList(response.ContentType, response.Body, r.typeMeta())
		if err != nil {
			return "", err
		}
		if o.Continue = meta.Continue; o.Continue != "" {
			// A continue token contains its revision; a server refuses a request that has both.
			o.ResourceVersion, o.ResourceVersionMatch = "", ""
			p.start(ctx, o)
		}
		if err := decodeItems(response.ContentType, items, r.typeMeta(), r.unmarshal, r.kind.New, known, add); err != nil {
			return "", err
		}
		if o.Continue == "" {
			return meta.ResourceVersion, nil
		}
	}
}

// pages fetches one page at a time, in the background.
type pages struct {
	fetch    func(context.Context, metav1.ListOptions, *bytes.Buffer) (Response, error)
	fetching sync.WaitGroup
	// bodies are used in turn: one page is being read while the previous one is decoded.
	bodies [2]bytes.Buffer
	turn   int

	response Response
	err      error
}

// start begins to fetch the page for o.
func (p *pages) start(ctx context.Context, o metav1.ListOptions) {
	body := &p.bodies[p.turn]
	p.turn = 1 - p.turn
	p.fetching.Go(func() { p.response, p.err = p.fetch(ctx, o, body) })
}

// wait returns the page that start fetches. Its body is valid until start is called for the page
// after the next.
func (p *pages) wait() (Response, error) {
	p.fetching.Wait()
	return p.response, p.err
}

// query encodes list options as URL parameters.
func query(o metav1.ListOptions) url.Values {
	q := url.Values{}
	set := func(key, value string) {
		if value != "" {
			q.Set(key, value)
		}
	}
	set("labelSelector", o.LabelSelector)
	set("fieldSelector", o.FieldSelector)
	set("resourceVersion", o.ResourceVersion)
	set("resourceVersionMatch", string(o.ResourceVersionMatch))
	set("continue", o.Continue)
	if o.Limit > 0 {
		set("limit", strconv.FormatInt(o.Limit, 10))
	}
	if o.Watch {
		set("watch", "true")
	}
	if o.AllowWatchBookmarks {
		set("allowWatchBookmarks", "true")
	}
	if o.TimeoutSeconds != nil {
		set("timeoutSeconds", strconv.FormatInt(*o.TimeoutSeconds, 10))
	}
	if o.SendInitialEvents != nil {
		set("sendInitialEvents", strconv.FormatBool(*o.SendInitialEvents))
	}
	return q
}
