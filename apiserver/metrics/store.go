package metrics

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// countTimeout bounds the counting of objects while metrics are read.
const countTimeout = time.Second

// Store measures what next is asked.
func (m *Metrics) Store(next storage.Store) storage.Store { return &store{next, m} }

type store struct {
	storage.Store
	metrics *Metrics
}

// Revision implements storage.Current.
func (s *store) Revision(ctx context.Context) (storage.Revision, error) {
	began := time.Now()
	revision, err := storage.Now(ctx, s.Store)
	s.metrics.stored("revision", "", began, err)
	return revision, err
}

func (s *store) Get(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
	began := time.Now()
	record, err := s.Store.Get(ctx, key, at)
	s.metrics.stored("get", key, began, err)
	return record, err
}

func (s *store) List(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
	began := time.Now()
	page, err := s.Store.List(ctx, prefix, o)
	s.metrics.stored("list", prefix, began, err)
	return page, err
}

func (s *store) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	began := time.Now()
	record, err := s.Store.Commit(ctx, c)
	s.metrics.stored(c.Op.String(), c.Key, began, err)
	return record, err
}

func (m *Metrics) stored(operation string, key storage.Key, began time.Time, err error) {
	var r schema.GroupResource
	if resourceAt := m.resourceAt.Load(); resourceAt != nil {
		r = (*resourceAt)(key)
	}
	m.storeSeconds.WithLabelValues(operation, r.Group, r.Resource).Observe(time.Since(began).Seconds())
	switch {
	case err == nil, errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrExists), errors.Is(err, storage.ErrConflict):
	default:
		m.storeErrors.WithLabelValues(operation, r.Group, r.Resource).Inc()
	}
}

// NameResources names the resources of the store's requests from now on: resourceAt returns the resource of
// a key, as [apiserver.Server.ResourceAt] does.
func (m *Metrics) NameResources(resourceAt func(storage.Key) schema.GroupResource) {
	m.resourceAt.Store(&resourceAt)
}

// StoreSize shows the size of the database of s, if it is known, as apiserver_storage_size_bytes. It is called
// once.
func (m *Metrics) StoreSize(s storage.Store) {
	m.registry.MustRegister(&size{s, prometheus.NewDesc("apiserver_storage_size_bytes",
		"Size of the storage database file physically allocated in bytes.", []string{"storage_cluster_id"}, nil)})
}

type size struct {
	store storage.Store
	desc  *prometheus.Desc
}

func (s *size) Describe(out chan<- *prometheus.Desc) { out <- s.desc }

func (s *size) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	if bytes, err := storage.Size(ctx, s.store); err == nil {
		out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(bytes), "etcd-0")
	}
}

// CountObjects shows what count returns as apiserver_storage_objects and apiserver_resource_objects,
// whenever the metrics are read. It is called once.
func (m *Metrics) CountObjects(count func(context.Context) (map[schema.GroupResource]int64, error)) {
	const help = "Number of stored objects at the time of last check split by kind."
	m.registry.MustRegister(&objects{count, prometheus.NewDesc("apiserver_storage_objects", help, []string{"resource"}, nil),
		prometheus.NewDesc("apiserver_resource_objects", help, []string{"group", "resource"}, nil)})
}

type objects struct {
	count func(context.Context) (map[schema.GroupResource]int64, error)
	// older is the series that kube-apiserver calls stable. Both say the same.
	older, newer *prometheus.Desc
}

func (o *objects) Describe(out chan<- *prometheus.Desc) { out <- o.older; out <- o.newer }

func (o *objects) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	counts, err := o.count(ctx)
	if err != nil {
		return
	}
	for r, n := range counts {
		out <- prometheus.MustNewConstMetric(o.older, prometheus.GaugeValue, float64(n), r.String())
		out <- prometheus.MustNewConstMetric(o.newer, prometheus.GaugeValue, float64(n), r.Group, r.Resource)
	}
}

func code(status int) string { return strconv.Itoa(status) }
