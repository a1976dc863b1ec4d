package client

import (
	"bytes"
	"context"
	"net/url"
	"strconv"

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
// objects away as they come. It calls
// begin before the first ones, also when it begins anew.
func (r Resource[T]) list(ctx context.Context, namespace string, o metav1.ListOptions, known func([]byte) bool, begin func(), add func([]T)) (revision string, err error) {
	at, err := r.path(namespace, "")
	if err != nil {
		return "", err
	}
	begin()
	var body bytes.Buffer // for one page after the other: objects have copies
	for {
		response, err := r.negotiate(ctx, Request{Path: at, Query: query(o), into: &body}, nil)
		if apierrors.IsResourceExpired(err) && o.Continue != "" {
			o.Continue, o.Limit = "", 0
			begin()
			continue
		}
		if err != nil {
			return "", err
		}
		meta, err := decodeList(response.ContentType, response.Body, r.kind(), r.t.New, known, add)
		if err != nil {
			return "", err
		}
		if meta.Continue == "" {
			return meta.ResourceVersion, nil
		}
		o.Continue = meta.Continue
		// A continuation names its revision itself; a server refuses both.
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
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
