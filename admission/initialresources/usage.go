package initialresources

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Query asks for the usage of a resource by the containers of an image.
type Query struct {
	// Resource is cpu or memory.
	Resource corev1.ResourceName
	// Percentile is 1 to 100.
	Percentile int
	// Image is the image as pods name it. With AnyTag it is the name alone, as of
	// [Repository], and stands for all its tags and digests.
	Image  string
	AnyTag bool
	// Namespace is where; empty is everywhere.
	Namespace string
	// Start and End are when, both included.
	Start, End time.Time
}

// UsageSource knows what containers used. Must be safe for concurrent use.
type UsageSource interface {
	// Usage returns the percentile that was asked for, in thousandths of a CPU or in
	// bytes, and from how many samples it comes; with none, usage means nothing.
	Usage(ctx context.Context, q Query) (usage, samples int64, err error)
}

// UsageFunc is a function that is a [UsageSource].
type UsageFunc func(context.Context, Query) (usage, samples int64, err error)

// Usage calls f.
func (f UsageFunc) Usage(ctx context.Context, q Query) (usage, samples int64, err error) {
	return f(ctx, q)
}

// As in Kubernetes: with so many samples nothing wider is asked for.
const (
	enough = 30
	week   = 7 * 24 * time.Hour
	month  = 30 * 24 * time.Hour
)

// used is the usage that a request is made of; nil when nothing is known.
func (p *Plugin) used(ctx context.Context, name corev1.ResourceName, image, namespace string) (*resource.Quantity, error) {
	now := time.Now()
	for _, q := range p.queries(image, namespace) {
		q.query.Resource, q.query.Percentile = name, p.config.Percentile
		q.query.Start, q.query.End = now.Add(-q.back), now
		usage, samples, err := p.config.Source.Usage(ctx, q.query)
		if err != nil {
			return nil, err
		}
		if samples >= enough || q.last && samples > 0 {
			return quantity(name, usage), nil
		}
	}
	return nil, nil
}

// attempt is a query and how far it looks back.
type attempt struct {
	query Query
	back  time.Duration
	last  bool
}

// queries are the attempts, the closest first.
func (p *Plugin) queries(image, namespace string) []attempt {
	here, anywhere := Query{Image: image, Namespace: namespace}, Query{Image: image}
	others := Query{Image: Repository(image), AnyTag: true}
	if p.config.NamespaceOnly {
		others.Namespace = namespace
		return []attempt{{query: here, back: week}, {query: here, back: month}, {query: others, back: month, last: true}}
	}
	return []attempt{
		{query: here, back: week}, {query: here, back: month},
		{query: anywhere, back: week}, {query: anywhere, back: month},
		{query: others, back: month, last: true},
	}
}

// Repository is the name of an image without tag and digest. The port of a registry
// stays.
func Repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		return image[:colon]
	}
	return image
}
