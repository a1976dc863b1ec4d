package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// beGreedy sends requests until ctx or the time has ended. It then prints how many requests were
// served, rejected and broken, and its duration in seconds.
func beGreedy(ctx context.Context, o *options) error {
	ctx, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	var served, rejected, broken atomic.Int64
	began := time.Now()
	var all sync.WaitGroup
	for i := range o.greedy {
		all.Go(func() {
			c := newCaller(o.target, "greedy-token")
			defer c.web.CloseIdleConnections()
			for round := 0; ctx.Err() == nil; round++ {
				name := fmt.Sprintf("greedy-%d", i)
				var code int
				var err error
				switch round % 4 {
				case 0:
					code, err = c.do(ctx, http.MethodGet, podsPath, "")
				case 1:
					code, err = c.do(ctx, http.MethodPost, configMapsPath, configMap(name))
				case 2:
					code, err = c.do(ctx, http.MethodGet, configMapsPath+"/"+name, "")
				default:
					code, err = c.do(ctx, http.MethodDelete, configMapsPath+"/"+name, "")
				}
				switch {
				case ctx.Err() != nil:
				case err != nil || code >= 500:
					broken.Add(1)
				case code == http.StatusTooManyRequests:
					rejected.Add(1)
				default:
					served.Add(1)
				}
			}
		})
	}
	all.Wait()
	fmt.Println(served.Load(), rejected.Load(), broken.Load(), time.Since(began).Seconds())
	return nil
}
