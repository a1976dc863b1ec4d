package client

import (
	"context"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// List reads all objects of a namespace, or of all namespaces where it is
// empty, and the revision they are as of. With a Limit they are fetched in
// pages of that size; the result is still all of them, as of one revision. If
// the server forgets that revision between two pages, List begins anew without
// pages.
func (r Resource[T]) List(ctx context.Context, namespace string, o metav1.ListOptions) ([]T, string, error) {
	at, err := r.path(namespace, "")
	if err != nil {
		return nil, "", err
	}
	var objects []T
	for {
		meta, err := r.page(ctx, at, o, &objects)
		if apierrors.IsResourceExpired(err) && o.Continue != "" {
			objects, o.Continue, o.Limit = nil, "", 0
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if meta.Continue == "" {
			return objects, meta.ResourceVersion, nil
		}
		o.Continue = meta.Continue
		// A continuation names its revision itself; a server refuses both.
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
}

func (r Resource[T]) page(ctx context.Context, at string, o metav1.ListOptions, objects *[]T) (metav1.ListMeta, error) {
	response, err := r.negotiate(ctx, Request{Path: at, Query: query(o)}, nil)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	return decodeList(response.ContentType, response.Body, r.kind(), func() runtime.Object {
		object := r.t.New()
		*objects = append(*objects, object)
		return object
	})
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
	return q
}
