// Package audit writes down who asked an API server for what, as lines of JSON.
//
//	policy, err := audit.ParsePolicy(text)
//	log, err := audit.New(audit.Config{Policy: policy, Out: file})
//	config.Auditor = log
//	err = log.Run(ctx) // beside the server
//
// A policy says how much of which request is written: nothing, who and what
// (Metadata), the body of the request too, or that of the answer as well. Secrets
// are in those bodies unless the policy leaves them out. Each request makes an
// event when it is received and one when it has been answered, a watch one when
// its answer begins, a panic one of its own. All events of a request bear its
// Audit-ID, which the client gets as a header, and may choose by one.
//
// Events have annotations of every stage that had something to say: of
// authenticators (authentication.k8s.io/stale-token), of the authorizer
// (authorization.k8s.io/decision and reason), of admission plugins and webhooks,
// and of initializers, as they are added to an object, have acted or have failed
// (initializers.admission.k8s.io/pending, completed, failed). The event of a client
// that was refused tells how it tried to come in.
//
// Events form a queue of bounded length which Run writes out. When it is full,
// because the disk is slow or gone, a request waits for it, at most Wait; then
// the event is dropped, counted and logged. Requests are never refused.
// Run writes what is queued before it returns.
//
// It leaves out webhooks, rotation of files (a program like logrotate, or Out
// itself, may see to that) and the truncation of large events.
package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Config configures an audit log.
type Config struct {
	// Policy must be set.
	Policy *Policy
	// Out gets one line an event, from one goroutine.
	Out io.Writer
	// Buffer bounds the events that wait to be written; zero is 10,000.
	Buffer int
	// Wait is how long a request waits for a full buffer; zero is a second.
	Wait time.Duration
	// Log is silent when zero.
	Log logr.Logger
}

// Log is an apiserver.Auditor.
type Log struct {
	config  Config
	queue   chan []byte
	dropped atomic.Int64
}

// New checks c.
func New(c Config) (*Log, error) {
	switch {
	case c.Policy == nil || c.Out == nil:
		return nil, errors.New("audit: Policy and Out must be set")
	case c.Buffer < 0 || c.Wait < 0:
		return nil, errors.New("audit: Buffer and Wait must not be negative")
	}
	if err := c.Policy.check(); err != nil {
		return nil, fmt.Errorf("audit: policy: %w", err)
	}
	if c.Buffer == 0 {
		c.Buffer = 10_000
	}
	if c.Wait == 0 {
		c.Wait = time.Second
	}
	return &Log{config: c, queue: make(chan []byte, c.Buffer)}, nil
}

// Run writes events until ctx is done and then those that are waiting. An error
// of the writer is logged, and costs the events it befell.
func (l *Log) Run(ctx context.Context) error {
	out := bufio.NewWriterSize(l.config.Out, 64<<10)
	for {
		select {
		case line := <-l.queue:
			l.write(out, line)
		case <-ctx.Done():
			for len(l.queue) > 0 {
				l.write(out, <-l.queue)
			}
			return nil
		}
	}
}

// write buffers line and writes the buffer out where nothing else is waiting.
func (l *Log) write(out *bufio.Writer, line []byte) {
	_, err := out.Write(line)
	if err == nil && len(l.queue) == 0 {
		err = out.Flush()
	}
	if err != nil {
		l.dropped.Add(1)
		l.config.Log.Error(err, "audit events cannot be written")
		out.Reset(l.config.Out)
	}
}

// Dropped counts the events that were lost.
func (l *Log) Dropped() int64 { return l.dropped.Load() }

// Begin implements apiserver.Auditor.
func (l *Log) Begin(r *http.Request, a authz.Attributes) apiserver.Trail {
	v := l.config.Policy.judge(a)
	if v.level == None {
		return nil
	}
	v.level = withoutCredentials(v.level, a)
	t := &trail{log: l, verdict: v, event: event{
		Kind: "Event", APIVersion: "audit.k8s.io/v1", Level: v.level,
		AuditID: auditID(r), RequestURI: r.URL.RequestURI(), Verb: a.Verb, User: whoIs(a.User),
		SourceIPs: sources(r), UserAgent: r.UserAgent(), ObjectRef: referenceTo(a), Received: stamp(time.Now()),
	}}
	t.send(RequestReceived)
	return t
}

// maxID bounds a client's own Audit-ID, as in Kubernetes.
const maxID = 64

// auditID is the client's own, if it has a fit one, or a new one.
func auditID(r *http.Request) string {
	id := r.Header.Get("Audit-Id")
	if len(id) > maxID {
		id = id[:maxID]
	}
	if id == "" || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return string(uuid.NewUUID())
	}
	return id
}

// trail is one request on its way.
type trail struct {
	log     *Log
	verdict verdict
	event   event
}

func (t *trail) ID() string { return t.event.AuditID }

func (t *trail) Wants() (request, answer bool) {
	return t.verdict.level == Request || t.verdict.level == RequestResponse, t.verdict.level == RequestResponse
}

func (t *trail) Impersonates(u *user.Info, constraint string) {
	as := whoIs(u)
	t.event.Impersonated = &as
	if constraint != "" {
		t.event.Authentication = &authentication{constraint}
	}
}

func (t *trail) Decided(allowed bool, reason string) {
	decision := "forbid"
	if allowed {
		decision = "allow"
	}
	t.Annotate("authorization.k8s.io/decision", decision)
	t.Annotate("authorization.k8s.io/reason", reason)
}

func (t *trail) Annotate(key, value string) {
	if _, ok := t.event.Annotations[key]; ok {
		return
	}
	if t.event.Annotations == nil {
		t.event.Annotations = map[string]string{}
	}
	t.event.Annotations[key] = value
}

func (t *trail) Started(code int) {
	t.event.Status = &status{Code: code}
	t.send(ResponseStarted)
}

func (t *trail) Done(o apiserver.Outcome) {
	t.event.Status = &status{Code: o.Code}
	if o.Status != nil {
		t.event.Status.Status, t.event.Status.Message, t.event.Status.Reason = o.Status.Status, o.Status.Message, string(o.Status.Reason)
	}
	t.event.Request, t.event.Response = o.Request, o.Answer
	if t.verdict.omitManagedFields {
		t.event.Request, t.event.Response = withoutManagedFields(o.Request), withoutManagedFields(o.Answer)
	}
	if o.Panicked {
		t.event.Status = &status{Status: "Failure", Message: "APIServer panic'd", Reason: "InternalError", Code: http.StatusInternalServerError}
		t.send(Panic)
		return
	}
	t.send(ResponseComplete)
}

// send queues the event as it is now.
func (t *trail) send(stage Stage) {
	if slices.Contains(t.verdict.omit, stage) {
		return
	}
	t.event.Stage, t.event.Stamped = stage, stamp(time.Now())
	if stage == RequestReceived {
		t.event.Stamped = t.event.Received
	}
	line, err := json.Marshal(&t.event)
	if err != nil {
		t.log.lose(err)
		return
	}
	line = append(line, '\n')
	select {
	case t.log.queue <- line:
		return
	default:
	}
	timer := time.NewTimer(t.log.config.Wait)
	defer timer.Stop()
	select {
	case t.log.queue <- line:
	case <-timer.C:
		t.log.lose(errors.New("the buffer stayed full"))
	}
}

func (l *Log) lose(err error) {
	l.dropped.Add(1)
	l.config.Log.Error(err, "audit event lost", "lost", l.dropped.Load())
}
