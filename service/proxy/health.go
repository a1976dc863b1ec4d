package proxy

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// healthTimeout is how long a change may wait before the proxy is unhealthy: twice kube-proxy's period
// of syncs.
const healthTimeout = time.Minute

// toBeDeleted is the taint by which an autoscaler announces that it removes a node. Load balancers
// shall not send new connections to it.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// health knows whether changes are written in time. Its methods are safe for concurrent use.
type health struct {
	meters Meters
	mu     sync.Mutex
	// The fields below are guarded by mu.
	lastUpdated, oldestQueued time.Time
	node                      *corev1.Node
}

func newHealth(m Meters) *health { return &health{meters: m, lastUpdated: time.Now()} }

func (h *health) queued() {
	h.mu.Lock()
	if h.oldestQueued.IsZero() {
		h.oldestQueued = time.Now()
	}
	h.mu.Unlock()
	h.meters.queued()
}

func (h *health) updated() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastUpdated, h.oldestQueued = time.Now(), time.Time{}
}

func (h *health) setNode(n *corev1.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.node = n
}

func (h *health) isHealthy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.healthyLocked()
}

func (h *health) healthyLocked() bool {
	return h.oldestQueued.IsZero() || time.Since(h.oldestQueued) < healthTimeout
}

func (h *health) eligibleLocked() bool {
	if h.node == nil || h.node.DeletionTimestamp != nil {
		return false
	}
	for _, t := range h.node.Spec.Taints {
		if t.Key == toBeDeleted {
			return false
		}
	}
	return true
}

// report is kube-proxy's answer about its health.
type report struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
	Healthy      bool      `json:"healthy"`
}

// ServeHTTP answers /healthz, for load balancers, which is 503 also when the node is about to be
// removed, and /livez, about the proxy alone. kube-proxy has both at port 10256.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/healthz" && r.URL.Path != "/livez" {
		http.NotFound(w, r)
		return
	}
	h := p.health
	h.mu.Lock()
	answer := report{LastUpdated: h.lastUpdated, CurrentTime: time.Now(), Healthy: h.healthyLocked()}
	eligible := h.eligibleLocked()
	h.mu.Unlock()
	ok := answer.Healthy
	if r.URL.Path == "/healthz" {
		answer.NodeEligible = &eligible
		ok = ok && eligible
	}
	code := http.StatusServiceUnavailable
	if ok {
		code, answer.LastUpdated = http.StatusOK, answer.CurrentTime
	}
	h.meters.health(r.URL.Path, code)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	body, err := json.Marshal(answer)
	if err == nil {
		_, err = w.Write(body)
	}
	if err != nil {
		p.Log.V(1).Info("could not answer about health", "error", err.Error())
	}
}
