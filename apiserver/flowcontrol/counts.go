package flowcontrol

// SchemaStatus counts the requests of a schema since it was configured, or since its level
// was changed.
type SchemaStatus struct {
	Schema, Level string
	// Executing and Waiting are the requests that do so now.
	Executing, Waiting int
	// SeatsInUse includes lingering seats. SeatsWaiting counts those that the waiting requests need.
	SeatsInUse, SeatsWaiting int
	// Dispatched requests have begun to execute. QueueFull and NoSeat count requests that were
	// rejected with ErrQueueFull and ErrNoSeat.
	Dispatched, QueueFull, NoSeat uint64
	// TimedOut requests of a Controller waited until their deadline, and Cancelled ones until
	// their client had gone.
	TimedOut, Cancelled uint64
}

// flowCounts is a SchemaStatus in use. The tickets of the schema keep it, also after the
// schema was removed.
type flowCounts struct{ SchemaStatus }

// setCounts makes counts for the schemas of the classifier and keeps those that it had.
func (c *Core) setCounts() {
	type key struct{ schema, level string }
	old := map[key]*flowCounts{}
	for _, counts := range c.counts {
		old[key{counts.Schema, counts.Level}] = counts
	}
	c.counts = make([]*flowCounts, len(c.classifier.schemas))
	for i, s := range c.classifier.schemas {
		if c.counts[i] = old[key{s.Name, s.Level}]; c.counts[i] == nil {
			c.counts[i] = &flowCounts{SchemaStatus{Schema: s.Name, Level: s.Level}}
		}
	}
}

// Schemas returns the counts of all schemas in the order in which they are asked.
func (c *Core) Schemas() []SchemaStatus {
	out := make([]SchemaStatus, len(c.counts))
	for i, counts := range c.counts {
		out[i] = counts.SchemaStatus
	}
	return out
}
