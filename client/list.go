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

// List reads all objects of a namespace, or of all namespaces where it is
// empty, and the revision they are as of. With a Limit they are fetched in
// pages of that size; the result is still all of them, as of one revision. If
// the server forgets that revision between two pages, List begins anew without
// pages.
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

// list reads what List does, but for objects that are known, and gives the
// objects away as they come, while the next page is on its way. It calls begin
// before the first ones, also when it begins anew.
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
		meta, items, err := openList(response.ContentType, response.Body, r.kind())
		if err != nil {
			return "", err
		}
		if o.Continue = meta.Continue; o.Continue != "" {
			// A continuation names its revision itself; a server refuses both.
			o.ResourceVersion, o.ResourceVersionMatch = "", ""
			p.start(ctx, o)
		}
		if err := decodeItems(response.ContentType, items, r.kind(), r.unmarshal, r.t.New, known, add); err != nil {
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
	// bodies are read to in turn: one page comes while the one before is decoded.
	bodies [2]bytes.Buffer
	turn   int

	response Response
	err      error
}

// start begins to fetch the page that o asks for.
func (p *pages) start(ctx context.Context, o metav1.ListOptions) {
	body := &p.bodies[p.turn]
	p.turn = 1 - p.turn
	p.fetching.Go(func() { p.response, p.err = p.fetch(ctx, o, body) })
}

// wait returns what came. Its body is good until the next but one has been
// started.
func (p *pages) wait() (Response, error) {
	p.fetching.Wait()
	return p.response, p.err
}

// query writes list options as URL parameters.
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
