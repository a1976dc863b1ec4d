package flowcontrol

import (
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"
)

// DebugPath is where kube-apiserver serves the pages of [Controller.DebugHandler].
const DebugPath = "/debug/api_priority_and_fairness/"

// DebugHandler serves dump_priority_levels, dump_queues and dump_requests below DebugPath:
// tables of the present state for people, with the columns of kube-apiserver
// (https://kubernetes.io/docs/reference/debug-cluster/flow-control/). They show who asks for
// what, so the server must authorize requests for them. Queues without requests are left out.
func (c *Controller) DebugHandler() http.Handler {
	mux := http.NewServeMux()
	for name, rows := range map[string]func([]LevelDump, []SchemaStatus, bool) [][]any{
		"dump_priority_levels": levelRows,
		"dump_queues":          queueRows,
		"dump_requests":        requestRows,
	} {
		mux.HandleFunc("GET "+DebugPath+name, func(w http.ResponseWriter, r *http.Request) {
			details := r.URL.Query().Get("includeRequestDetails")
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			table := tabwriter.NewWriter(w, 8, 0, 1, ' ', 0)
			for _, row := range rows(c.Dump(), c.Schemas(), details == "1" || details == "true") {
				for _, cell := range row {
					_, _ = fmt.Fprintf(table, "%v,\t", cell)
				}
				_, _ = fmt.Fprintln(table)
			}
			_ = table.Flush()
		})
	}
	return mux
}

func levelRows(levels []LevelDump, schemas []SchemaStatus, _ bool) [][]any {
	out := [][]any{{
		"PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests",
		"DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests",
	}}
	for _, l := range levels {
		var sum SchemaStatus
		for _, s := range schemas {
			if s.Level == l.Name {
				sum.Dispatched += s.Dispatched
				sum.QueueFull += s.QueueFull + s.NoSeat
				sum.TimedOut += s.TimedOut
				sum.Cancelled += s.Cancelled
			}
		}
		out = append(out, []any{
			l.Name, len(l.Queues), l.Waiting+l.Executing == 0, l.Retired, l.Waiting, l.Executing,
			sum.Dispatched, sum.QueueFull, sum.TimedOut, sum.Cancelled,
		})
	}
	return out
}

func queueRows(levels []LevelDump, _ []SchemaStatus, _ bool) [][]any {
	out := [][]any{{
		"PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR",
		"InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum",
	}}
	for _, l := range levels {
		for _, q := range l.Queues {
			initial := 0
			for _, r := range q.Waiting {
				initial += r.Seats
			}
			out = append(out, []any{
				l.Name, q.Index, len(q.Waiting), len(q.Executing), q.SeatsInUse, fmt.Sprintf("%.8fss", q.NextR),
				initial, q.SeatsWaiting, fmt.Sprintf("%.8fss", q.Work),
			})
		}
	}
	return out
}

func requestRows(levels []LevelDump, _ []SchemaStatus, details bool) [][]any {
	head := []any{
		"PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime",
		"InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime",
	}
	if details {
		head = append(head, "UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
	}
	out := [][]any{head}
	add := func(level string, queue, index int, r RequestDump) {
		started := ""
		if !r.Started.IsZero() {
			started = stamp(r.Started)
		}
		row := []any{
			level, r.Schema, queue, index, quoted(r.Flow), stamp(r.Arrived), r.Seats, r.LingerSeats, r.Linger, started,
		}
		if details {
			version := strings.TrimPrefix(r.APIGroup+"/"+r.APIVersion, "/")
			row = append(row, quoted(r.User), quoted(r.Verb), quoted(r.Path), quoted(r.Namespace), quoted(r.Name), quoted(version), quoted(r.Resource), quoted(r.Subresource))
		}
		out = append(out, row)
	}
	for _, l := range levels {
		for _, r := range l.Direct {
			add(l.Name, -1, -1, r)
		}
		for _, q := range l.Queues {
			for n, r := range q.Waiting {
				add(l.Name, q.Index, n, r)
			}
			for _, r := range q.Executing {
				add(l.Name, q.Index, -1, r)
			}
		}
	}
	return out
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// quoted returns s, or s as a Go string where it would look like a column or a line.
func quoted(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == ',' || r == '"' || r == 0x7f || r > 0x7e }) {
		return fmt.Sprintf("%+q", s)
	}
	return s
}
