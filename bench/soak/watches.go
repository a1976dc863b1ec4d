package main

import (
	"context"
	"io"
	"net/url"
	"time"

	"github.com/planekit/planekit/client"
)

// followed lists the paths for watches.
var followed = []string{"/api/v1/configmaps", "/api/v1/pods", "/api/v1/events", "/apis/apps/v1/replicasets", "/api/v1/namespaces"}

// A temper is the behaviour of a watch's reader.
type temper int

const (
	eager     temper = iota // reads everything
	slow                    // reads more slowly than events arrive
	abandoned               // reads nothing and finally closes its connection
	tempers
)

// watch opens a watch that lasts for a while beside other operations.
func (w *worker) watch(ctx context.Context, _ *space) error {
	path, how := followed[w.random.IntN(len(followed))], temper(w.random.IntN(int(tempers)))
	life := time.Second + time.Duration(w.random.ExpFloat64()*float64(15*time.Second))
	api, own := w.child.api, w.random.IntN(3) == 0
	if own {
		var err error
		if api, err = w.child.connect(); err != nil {
			return err
		}
	}
	accept := client.JSON
	if w.random.IntN(2) == 0 {
		accept = "application/vnd.kubernetes.protobuf;stream=watch"
	}
	ctx, cancel := context.WithTimeout(ctx, min(life, time.Minute))
	stream, _, err := api.Stream(ctx, client.Request{Path: path, Accept: accept, Query: url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}}})
	if err != nil {
		cancel()
		return err
	}
	w.watches.Go(func() {
		defer cancel()
		follow(ctx, stream, how)
		stream.Close()
		if own {
			api.Close()
		}
	})
	return nil
}

// follow reads stream until ctx is done or the server ends it.
func follow(ctx context.Context, stream io.Reader, how temper) {
	switch how {
	case eager:
		_, _ = io.Copy(io.Discard, stream)
	case slow:
		for piece := make([]byte, 512); sleep(ctx, 50*time.Millisecond) == nil; {
			if _, err := stream.Read(piece); err != nil {
				return
			}
		}
	case abandoned:
		<-ctx.Done()
	}
}
