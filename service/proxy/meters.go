package proxy

import "time"

// Meters are called with measurements, one at a time for each function but Health. Functions that are
// nil are not called. Package metrics has those of Prometheus.
type Meters struct {
	// Queued is called when changes wait to be written.
	Queued func()
	// Synced is called after a write with how long it took and whether it was the first one, which
	// writes all services.
	Synced func(took time.Duration, first bool)
	// Programmed is called for each change of endpoints that was written, with the time since the change
	// of the pod.
	Programmed func(took time.Duration)
	// NoLocalEndpoints is called after a write with the number of ports that have a policy Local and no
	// endpoint on this node.
	NoLocalEndpoints func(internal, external int)
	// Failed is called for a write that failed.
	Failed func()
	// Repaired is called with the number of chains, sets and elements that another program had changed.
	Repaired func(parts int)
	// Forgot is called with the number of conntrack entries that were removed.
	Forgot func(entries int)
	// Connections is called every second with the size of the kernel's table of connections.
	Connections func(count, max int)
	// Health is called for each answer to a question about health: path is /healthz or /livez.
	Health func(path string, code int)
}

func (m Meters) queued() {
	if m.Queued != nil {
		m.Queued()
	}
}

func (m Meters) synced(took time.Duration, first bool, triggers []time.Time, n noLocal) {
	if m.Synced != nil {
		m.Synced(took, first)
	}
	if m.NoLocalEndpoints != nil {
		m.NoLocalEndpoints(n.internal, n.external)
	}
	if m.Programmed != nil {
		for _, at := range triggers {
			m.Programmed(time.Since(at))
		}
	}
}

func (m Meters) failed() {
	if m.Failed != nil {
		m.Failed()
	}
}

func (m Meters) repaired(parts int) {
	if m.Repaired != nil {
		m.Repaired(parts)
	}
}

func (m Meters) forgot(entries int) {
	if m.Forgot != nil {
		m.Forgot(entries)
	}
}

func (m Meters) connections(count, most int) {
	if m.Connections != nil {
		m.Connections(count, most)
	}
}

func (m Meters) health(path string, code int) {
	if m.Health != nil {
		m.Health(path, code)
	}
}
