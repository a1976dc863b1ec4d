package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
)

// Config configures an [Invoker]. The zero value is useful.
type Config struct {
	// Path lists the directories of plugins; the first match is used. Empty means /opt/cni/bin.
	Path []string
	// Dir is the directory of records and locks. Invokers of one host that may handle the same
	// containers must share it. Empty means /var/lib/planekit/cni.
	Dir string
	// Timeout bounds each call of a plugin. Zero means 90 s, well within the 4 min that the CRI
	// allows for a pod sandbox.
	Timeout time.Duration
	// Attempts is the maximum number of calls while a plugin answers "try again later" (code 11).
	// Zero means 5.
	Attempts int
	// RetryDelay is the delay before the second attempt; it doubles each time. Zero means 100 ms.
	RetryDelay time.Duration
	// Executor makes the calls. Nil means [Processes].
	Executor Executor
	// Log receives every call at V(1). The zero Logger discards them.
	Log logr.Logger
}

// RuntimeConfig identifies an attachment and its options.
type RuntimeConfig struct {
	// ContainerID names the container; see [CheckName].
	ContainerID string
	// NetNS is the path of its network namespace. It may be empty for Del if the namespace is gone.
	NetNS string
	// IfName is the name of the interface in the container.
	IfName string
	// Args are passed to plugins as CNI_ARGS.
	Args Args
	// Capabilities are values such as portMappings. Each plugin gets those that its configuration
	// selects, as its runtimeConfig.
	Capabilities map[string]any
	// Previous is the previous result for the first plugin; usually nil. It is for plugins that run
	// a list of their own.
	Previous *Result
}

// Invoker runs the plugins of networks. It is safe for concurrent use.
type Invoker struct {
	config  Config
	records records
}

// New returns an Invoker. It does not touch the disk.
func New(c Config) (*Invoker, error) {
	if c.Timeout < 0 || c.Attempts < 0 || c.RetryDelay < 0 {
		return nil, errors.New("cni: negative timeout, attempts or delay")
	}
	if len(c.Path) == 0 {
		c.Path = []string{"/opt/cni/bin"}
	}
	if c.Dir == "" {
		c.Dir = "/var/lib/planekit/cni"
	}
	if c.Timeout == 0 {
		c.Timeout = 90 * time.Second
	}
	if c.Attempts == 0 {
		c.Attempts = 5
	}
	if c.RetryDelay == 0 {
		c.RetryDelay = 100 * time.Millisecond
	}
	if c.Executor == nil {
		c.Executor = Processes{}
	}
	return &Invoker{config: c, records: records{dir: c.Dir}}, nil
}

// begin checks r and takes the lock of its container.
func (i *Invoker) begin(ctx context.Context, r RuntimeConfig) (unlock func(), err error) {
	if err := errors.Join(CheckName(r.ContainerID), CheckIfName(r.IfName), r.Args.check()); err != nil {
		return nil, err
	}
	dir := filepath.Join(i.config.Dir, "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return FileLock(ctx, filepath.Join(dir, r.ContainerID))
}

func wrap(op string, l *List, r RuntimeConfig, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s network %s, container %s, interface %s: %w", op, l.Name, r.ContainerID, r.IfName, err)
}

// Add attaches a container and returns the result of the last plugin. Before it fails, it runs DEL
// on all plugins. A recorded attachment is refused with [ErrExists].
func (i *Invoker) Add(ctx context.Context, l *List, r RuntimeConfig) (*Result, error) {
	unlock, err := i.begin(ctx, r)
	if err != nil {
		return nil, wrap("add", l, r, err)
	}
	defer unlock()
	result, err := i.add(ctx, l, r)
	return result, wrap("add", l, r, err)
}

func (i *Invoker) add(ctx context.Context, l *List, r RuntimeConfig) (*Result, error) {
	a := Attachment{r.ContainerID, r.IfName}
	if _, ok, err := i.records.read(l.Name, a); err != nil || ok {
		return nil, errors.Join(err, ErrExists)
	}
	rec := record{
		Network: l.Name, ContainerID: r.ContainerID, IfName: r.IfName,
		NetNS: r.NetNS, Args: r.Args, Capabilities: r.Capabilities,
	}
	if err := i.records.write(rec); err != nil {
		return nil, err
	}
	result, err := i.addAll(ctx, l, r)
	if err == nil {
		if rec.Result, err = result.Encode(l.Version); err == nil {
			err = i.records.write(rec)
		}
	}
	if err == nil {
		return result, nil
	}
	// Clean up even if the context has ended.
	undo := i.delAll(context.WithoutCancel(ctx), l, r, nil, true)
	if undo == nil {
		undo = i.records.remove(l.Name, a)
	}
	if undo != nil {
		err = fmt.Errorf("%w; cleaning up: %w", err, undo)
	}
	return nil, err
}

func (i *Invoker) addAll(ctx context.Context, l *List, r RuntimeConfig) (*Result, error) {
	result := r.Previous
	for _, p := range l.Plugins {
		out, err := i.call(ctx, CmdAdd, l, p, r, result)
		if err == nil {
			result, err = ParseResult(out, l.Version)
		}
		if err != nil {
			return nil, callError(CmdAdd, p.Type, err)
		}
	}
	return result, nil
}

// Del detaches a container. It stops at the first plugin that fails, so that no plugin frees what
// another still depends on, and can then be called again. Del of an attachment without a record
// runs without a result.
func (i *Invoker) Del(ctx context.Context, l *List, r RuntimeConfig) error {
	unlock, err := i.begin(ctx, r)
	if err != nil {
		return wrap("del", l, r, err)
	}
	defer unlock()
	return wrap("del", l, r, i.del(ctx, l, r))
}

func (i *Invoker) del(ctx context.Context, l *List, r RuntimeConfig) error {
	a := Attachment{r.ContainerID, r.IfName}
	rec, _, err := i.records.read(l.Name, a)
	if err != nil {
		return err
	}
	if len(r.Args) == 0 {
		r.Args = rec.Args
	}
	if r.Capabilities == nil {
		r.Capabilities = rec.Capabilities
	}
	if err := i.delAll(ctx, l, r, rec.result(l), false); err != nil {
		return err
	}
	return i.records.remove(l.Name, a)
}

// delAll runs DEL in reverse. With whole it continues after a failure, because nothing depends on
// an attachment that Add has not returned.
func (i *Invoker) delAll(ctx context.Context, l *List, r RuntimeConfig, last *Result, whole bool) error {
	var failed []error
	for n := len(l.Plugins) - 1; n >= 0; n-- {
		p := l.Plugins[n]
		if _, err := i.call(ctx, CmdDel, l, p, r, last); err != nil {
			failed = append(failed, err)
			if !whole {
				break
			}
		}
	}
	return errors.Join(failed...)
}

// result returns the recorded result, nil if there is no valid one.
func (r record) result(l *List) *Result {
	if len(r.Result) == 0 {
		return nil
	}
	result, err := ParseResult(r.Result, l.Version)
	if err != nil {
		return nil
	}
	return result
}

// Check asks all plugins whether an attachment is unchanged. It does nothing if the list disables
// checks or is older than version 0.4.0.
func (i *Invoker) Check(ctx context.Context, l *List, r RuntimeConfig) error {
	if l.DisableCheck || !AtLeast(l.Version, "0.4.0") {
		return nil
	}
	unlock, err := i.begin(ctx, r)
	if err != nil {
		return wrap("check", l, r, err)
	}
	defer unlock()
	rec, _, err := i.records.read(l.Name, Attachment{r.ContainerID, r.IfName})
	last := rec.result(l)
	if err == nil && last == nil {
		err = ErrNoResult
	}
	if err != nil {
		return wrap("check", l, r, err)
	}
	for _, p := range l.Plugins {
		if _, err := i.call(ctx, CmdCheck, l, p, r, last); err != nil {
			return wrap("check", l, r, err)
		}
	}
	return nil
}

// call runs one plugin for one container, and retries while the plugin requests it.
func (i *Invoker) call(ctx context.Context, cmd string, l *List, p Plugin, r RuntimeConfig, last *Result) ([]byte, error) {
	extra, err := derived(l, p, r, cmd, last)
	if err != nil {
		return nil, err
	}
	delay := i.config.RetryDelay
	for attempt := 1; ; attempt++ {
		out, err := i.once(ctx, cmd, l, p, r, extra)
		if code(err) != CodeTryAgain || attempt == i.config.Attempts {
			return out, err
		}
		if cmd == CmdAdd { // the specification forbids a second ADD before a DEL
			if _, err := i.once(context.WithoutCancel(ctx), CmdDel, l, p, r, extra); err != nil {
				return nil, fmt.Errorf("del before another attempt: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w; %w", err, context.Cause(ctx))
		case <-time.After(delay):
			delay *= 2
		}
	}
}

// once makes a single call of a plugin.
func (i *Invoker) once(ctx context.Context, cmd string, l *List, p Plugin, r RuntimeConfig, extra map[string]any) ([]byte, error) {
	stdin, err := p.stdin(l, extra)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, i.config.Timeout, fmt.Errorf("no answer within %v: %w", i.config.Timeout, context.DeadlineExceeded))
	defer cancel()
	start := time.Now()
	out, err := i.config.Executor.Exec(ctx, Call{
		Command: cmd, Type: p.Type, Path: i.config.Path,
		ContainerID: r.ContainerID, NetNS: r.NetNS, IfName: r.IfName, Args: r.Args,
		Stdin: stdin,
	})
	i.config.Log.V(1).Info("plugin called", "command", cmd, "network", l.Name, "plugin", p.Type,
		"container", r.ContainerID, "took", time.Since(start), "failed", err != nil)
	return out, callError(cmd, p.Type, err)
}

// derived returns the keys that are added to a plugin's configuration at run time.
func derived(l *List, p Plugin, r RuntimeConfig, cmd string, last *Result) (map[string]any, error) {
	extra := make(map[string]any)
	caps := make(map[string]any)
	for name, value := range r.Capabilities {
		if p.Capabilities[name] {
			caps[name] = value
		}
	}
	if len(caps) > 0 {
		extra["runtimeConfig"] = caps
	}
	if last != nil && (cmd != CmdDel || AtLeast(l.Version, "0.4.0")) {
		data, err := last.Encode(l.Version)
		if err != nil {
			return nil, err
		}
		extra["prevResult"] = json.RawMessage(data)
	}
	return extra, nil
}
