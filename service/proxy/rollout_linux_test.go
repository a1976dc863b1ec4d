package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/service/servicetest"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// rollouts is the environment variable that says how many rollouts TestRollout makes; one if empty.
const rollouts = "PLANEKIT_TEST_ROLLOUTS"

const (
	// rolloutReplicas is the number of pods that serve, and requestPeriod the time between two requests.
	rolloutReplicas = 3
	requestPeriod   = time.Millisecond
	// settle is how long a pod serves after no new connection comes to it, as a preStop hook has it.
	settle = 100 * time.Millisecond
)

// webPod is a pod with an HTTP server and its conditions.
type webPod struct {
	host               *servicetest.Host
	server             *http.Server
	ready, terminating bool
}

// TestRollout replaces all pods of a service, in the order of a Deployment: a new pod becomes ready, an old one
// terminates and serves until its server has ended, and is gone. Meanwhile a client makes a thousand requests
// a second, on new connections and on those that it keeps. None fails.
func TestRollout(t *testing.T) {
	rounds := 1
	if text := os.Getenv(rollouts); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("the number of rollouts in %s is %q: %v", rollouts, text, err)
		}
	}
	c := newCluster(t)
	client := c.Pod("client")
	c.services.Put(service())
	var pods []*webPod
	for i := range rolloutReplicas {
		pods = append(pods, c.webPod(fmt.Sprint("old", i)))
		pods[i].ready = true
	}
	c.slices.Put(webSlice(pods))
	written := make(chan struct{}, 100) // more than there are writes at a time
	c.config.Meters.Synced = func(time.Duration, bool) { written <- struct{}{} }
	publish := func() {
		for len(written) > 0 {
			<-written
		}
		c.slices.Put(webSlice(pods))
		select {
		case <-written: // a busy host may take longer than a pod waits
		case <-time.After(patience):
			t.Fatal("the rules do not follow the endpoints")
		}
	}
	c.start()
	load := startLoad(t, client, "http://10.65.200.10/")
	for round := range rounds {
		for i := range rolloutReplicas {
			pod := c.webPod(fmt.Sprintf("new%d-%d", round, i))
			pods = append(pods, pod)
			publish() // which is not ready
			time.Sleep(settle / 4)
			pod.ready = true
			publish()
			time.Sleep(settle / 4)
			old := pods[0]
			old.ready, old.terminating = false, true
			publish()
			time.Sleep(settle)
			if err := old.server.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			pods = pods[1:]
			publish()
		}
	}
	load.end()
	for _, pod := range pods {
		if load.servedBy(pod.host.Name) == 0 {
			t.Errorf("%s, which is new, served no request", pod.host.Name)
		}
	}
}

func (c *cluster) webPod(name string) *webPod {
	c.Helper()
	p := &webPod{host: c.Pod(name)}
	p.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })}
	p.host.Inside(func() error {
		l, err := net.Listen("tcp", ":8080")
		if err == nil {
			go func() { _ = p.server.Serve(l) }() // until it is closed
			c.Cleanup(func() { p.server.Close() })
		}
		return err
	})
	return p
}

func webSlice(pods []*webPod) *discoveryv1.EndpointSlice {
	s := slice("web", discoveryv1.AddressTypeIPv4)
	for _, p := range pods {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{p.host.IP4.String()}, NodeName: new("node"),
			Conditions: discoveryv1.EndpointConditions{Ready: new(p.ready), Serving: new(p.ready || p.terminating), Terminating: new(p.terminating)}})
	}
	return s
}

// load is requests that are made until it ends.
type load struct {
	t      *testing.T
	url    string
	failed atomic.Int64
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu sync.Mutex
	// served counts answers by server. Guarded by mu.
	served map[string]int
}

func startLoad(t *testing.T, from *servicetest.Host, url string) *load {
	l := &load{t: t, url: url, served: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	l.stop = cancel
	var clients []*http.Client
	for _, keeps := range []bool{true, false} {
		transport := &http.Transport{DisableKeepAlives: !keeps, MaxIdleConnsPerHost: 20, DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return from.Dial(network, address, patience)
		}}
		t.Cleanup(transport.CloseIdleConnections)
		clients = append(clients, &http.Client{Transport: transport, Timeout: patience})
	}
	ticks := time.NewTicker(requestPeriod)
	for i := range 20 { // workers, so that a slow host has fewer requests and not more at a time
		l.wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticks.C:
					l.request(clients[i%2])
				}
			}
		})
	}
	return l
}

// request asks once.
func (l *load) request(c *http.Client) {
	r, err := c.Get(l.url)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
	}
	if err != nil {
		l.failed.Add(1)
		l.t.Error(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served[string(body)]++
}

func (l *load) servedBy(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.served[name]
}

// end stops the requests and says how many there were.
func (l *load) end() {
	l.stop()
	l.wg.Wait()
	total := 0
	for _, n := range l.served {
		total += n
	}
	l.t.Logf("%d requests, %d failed", total, l.failed.Load())
	if total < 100 {
		l.t.Errorf("only %d requests were answered", total)
	}
}
