package staticpods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultPeriod is the default of [Config.Period], as in Kubernetes.
const DefaultPeriod = 20 * time.Second

// urlTimeout is the default limit of a request, as in Kubernetes.
const urlTimeout = 10 * time.Second

// Config describes where static pods come from. NodeName, Complete, and Path or URL must be set.
type Config struct {
	// NodeName is the name of the node that the pods run on.
	NodeName string
	// Path is a directory of manifests, or one manifest. Empty means none.
	Path string
	// URL is the HTTP address of a manifest. Empty means none.
	URL string
	// Header is sent with the requests to URL. It may be nil.
	Header http.Header
	// Client sends the requests to URL. Nil means a client with a timeout of 10 seconds.
	Client *http.Client
	// Period is the time between two reads. Zero means DefaultPeriod. URLPeriod is that of the URL; zero
	// means Period.
	Period, URLPeriod time.Duration
	// Complete sets the defaults of a pod and validates it, as an API server does.
	Complete func(*corev1.Pod) error
	// Log is silent when zero.
	Log logr.Logger
}

// A Source is a cache of static pods. It is empty until Run has read them.
type Source struct {
	localcache.ReadSubscriber[*corev1.Pod]
	pods    *localcache.Map[*corev1.Pod]
	origins []origin
	periods []time.Duration // by origin
	// Only Run uses the fields below.
	read     [][]*corev1.Pod // by origin
	problems problems
}

// An origin is a place that static pods come from. Only one goroutine uses it.
type origin interface {
	// pods reads the pods. It returns false if the earlier pods are still valid.
	pods(ctx context.Context) ([]*corev1.Pod, bool)
}

// New returns a source. It reads nothing.
func New(c Config) (*Source, error) {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	need(len(validation.IsDNS1123Subdomain(c.NodeName)) == 0, fmt.Sprintf("NodeName %q is not a DNS subdomain", c.NodeName))
	need(c.Complete != nil, "Complete is missing")
	need(c.Path != "" || c.URL != "", "Path and URL are missing")
	need(c.Period >= 0, fmt.Sprintf("Period %v is negative", c.Period))
	need(c.URLPeriod >= 0, fmt.Sprintf("URLPeriod %v is negative", c.URLPeriod))
	s := &Source{pods: localcache.NewUnsynced(localcache.KeyOf[*corev1.Pod]), problems: problems{log: c.Log}}
	s.ReadSubscriber = s.pods
	period := cmp.Or(c.Period, DefaultPeriod)
	if c.Path != "" {
		path, err := filepath.Abs(c.Path)
		if err != nil {
			errs = append(errs, err)
		}
		s.periods = append(s.periods, period)
		s.origins = append(s.origins, &files{path: path, builder: builder{node: c.NodeName, source: sourceFile, complete: c.Complete}, problems: problems{log: c.Log}})
	}
	if c.URL != "" {
		address, err := url.Parse(c.URL)
		need(err == nil && (address.Scheme == "http" || address.Scheme == "https") && address.Host != "", "URL is not an HTTP address")
		client := c.Client
		if client == nil {
			client = &http.Client{Timeout: urlTimeout}
		}
		s.periods = append(s.periods, cmp.Or(c.URLPeriod, period))
		s.origins = append(s.origins, &page{address: address, header: c.Header, client: client, builder: builder{node: c.NodeName, source: sourceHTTP, complete: c.Complete}, problems: problems{log: c.Log}})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("static pods: %w", err)
	}
	return s, nil
}

// readings are the pods of an origin, by its number.
type readings struct {
	origin int
	pods   []*corev1.Pod
}

// Run reads the pods until ctx is done. It may be called once.
func (s *Source) Run(ctx context.Context) error {
	var readers sync.WaitGroup
	defer readers.Wait()
	results := make(chan readings)
	for i, o := range s.origins {
		readers.Go(func() {
			poll(ctx, o, s.periods[i], func(pods []*corev1.Pod) bool {
				select {
				case results <- readings{i, pods}:
					return true
				case <-ctx.Done():
					return false
				}
			})
		})
	}
	s.read = make([][]*corev1.Pod, len(s.origins))
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-results:
			s.read[r.origin] = r.pods
			s.update()
		}
	}
}

// poll reads the pods of an origin at once and then every period, and delivers them, until ctx is
// done.
func poll(ctx context.Context, o origin, period time.Duration, deliver func([]*corev1.Pod) bool) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		if pods, ok := o.pods(ctx); ok && !deliver(pods) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// update makes the cache that of the pods of all origins. It is synced once all have been read.
func (s *Source) update() {
	var all []*corev1.Pod
	names, uids := map[string]bool{}, map[types.UID]bool{}
	complete := true
	s.problems.begin()
	for _, pods := range s.read {
		complete = complete && pods != nil
		for _, pod := range pods {
			key := localcache.KeyOf(pod)
			if names[key] || uids[pod.UID] {
				s.problems.add(key+" "+string(pod.UID), fmt.Errorf("the static pod %s with UID %s is ignored because another one has its name or UID", key, pod.UID))
				continue
			}
			if before, ok := s.pods.Get(key); ok {
				pod = keep(before, pod)
			}
			names[key], uids[pod.UID] = true, true
			all = append(all, pod)
		}
	}
	s.problems.end()
	s.pods.Replace(all...)
	if complete {
		s.pods.Sync()
	}
}

// keep returns the earlier pod if the new one differs only in when it was first seen. A pod with a
// UID in its manifest can change.
func keep(before, pod *corev1.Pod) *corev1.Pod {
	if before.UID != pod.UID {
		return pod
	}
	pod = pod.DeepCopy() // readings are used again
	pod.Annotations[annotationSeen] = before.Annotations[annotationSeen]
	if equality.Semantic.DeepEqual(before, pod) {
		return before
	}
	return pod
}
