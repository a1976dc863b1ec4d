// Package observe lets operators see what a control plane does: metrics of the API server, its store, controllers, scheduler and
// Pod Security admission at /metrics, in Prometheus' formats and with the names that Kubernetes has, and profiles of the process
// below /debug/pprof/.
//
//	config := plane.Config{Log: log}
//	if err := observe.Add(&config, observe.Options{Profiles: true}); err != nil {
//		return err
//	}
//	p, err := plane.New(config)
//
// Authorization asks for these paths like for any other: an administrator may get them. Handlers of the program's own
// under the same paths win.
package observe

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/pprof"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/plugins"
	podsecurity "github.com/planekit/planekit/admission/podsecurity/metrics"
	"github.com/planekit/planekit/admission/webhook"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/metrics"
	"github.com/planekit/planekit/plane"
	workmetrics "github.com/planekit/planekit/reconcile/metrics"
	"github.com/planekit/planekit/schedule"
	schedulemetrics "github.com/planekit/planekit/schedule/metrics"
	"github.com/planekit/planekit/storage"
)

// Options choose what is seen beside metrics.
type Options struct {
	// Profiles serves profiles of the process.
	Profiles bool
}

// Add makes the control plane of c show what it does. It replaces Controllers.Metrics and the hooks of Admission, and calls the functions that
// Scheduler and Configure have had before its own. Call it once for a plane.Config.
func Add(c *plane.Config, o Options) error {
	m, work, decisions, pods := metrics.New(), workmetrics.New(), schedulemetrics.New(), podsecurity.New()
	if err := errors.Join(m.Register(work), m.Register(decisions), m.Register(pods)); err != nil {
		return err
	}
	scheduler, configure := c.Scheduler, c.Configure
	c.Controllers.Metrics, c.Admission.PodSecurity = work, pods.Hooks()
	c.Admission.Metrics.Done = func(name string, phase plugins.Phase, op admission.Operation, took time.Duration, err error) {
		m.Plugin(name, string(phase), op, took, err)
	}
	c.Admission.Webhooks = func(call webhook.Call) {
		m.Webhook(call.Webhook, call.Mutating, call.Operation, call.Took, call.Rejected)
	}
	c.Scheduler = func(s *schedule.Config) {
		if scheduler != nil {
			scheduler(s)
		}
		s.Meters = decisions.Meters()
	}
	c.Configure = func(p *plane.Plane, config *apiserver.Config) error {
		if configure != nil {
			if err := configure(p, config); err != nil {
				return err
			}
		}
		m.StoreSize(config.Store)
		config.Hooks, config.Store, config.Authenticator = m.Hooks(), m.Store(config.Store), m.Authenticator(config.Authenticator)
		handlers := map[string]http.Handler{"/metrics": m.Handler(), "/metrics/slis": m.SLIs()}
		if o.Profiles {
			maps.Copy(handlers, profiles())
		}
		maps.Copy(handlers, config.Handlers)
		config.Handlers = handlers
		m.FlowControl(config.FlowControl)
		m.Build(func() version.Info { return p.Server.Version() })
		m.APIServices(func() (all []metrics.APIService) {
			for _, one := range p.Aggregator.Availability() {
				all = append(all, metrics.APIService(one))
			}
			return all
		})
		m.NameResources(func(key storage.Key) schema.GroupResource {
			if p.Server == nil {
				return schema.GroupResource{} // of what New reads
			}
			return p.Server.ResourceAt(key)
		})
		m.CountObjects(func(ctx context.Context) (map[schema.GroupResource]int64, error) {
			return p.Server.CountStored(ctx) // the server is there once metrics are read
		})
		return nil
	}
	return nil
}

// profiles returns the handlers of profiles, which have the paths of kube-apiserver.
func profiles() map[string]http.Handler {
	return map[string]http.Handler{
		"/debug/pprof":         http.RedirectHandler("/debug/pprof/", http.StatusMovedPermanently),
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}
