// Command cnitool attaches a network namespace to the network of a configuration directory, and shows
// what each plugin did.
//
//	ip netns add web
//	cnitool -in-process -conf-dir ./net.d add /run/netns/web
//	cnitool -in-process -conf-dir ./net.d check /run/netns/web
//	cnitool -in-process -conf-dir ./net.d del /run/netns/web
//	cnitool -in-process -conf-dir ./net.d gc /run/netns/db   # detach all but these
//	cnitool -in-process -conf-dir ./net.d status
//
// With -in-process, planekit's own plugins need no executables.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/plugins"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cnitool:", err)
		os.Exit(1)
	}
}

// tool is one prepared command.
type tool struct {
	invoker    *cni.Invoker
	list       *cni.List
	runtime    cni.RuntimeConfig
	resolvConf string

	mu    sync.Mutex
	calls []call
}

// call is a row of the table.
type call struct {
	plugin, command string
	took            time.Duration
	result          *cni.Result
	err             error
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("cnitool", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o options
	o.add(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	list, err := cni.LoadDir(o.confDir)
	if err != nil {
		return err
	}
	t := &tool{list: list, resolvConf: o.resolvConf, runtime: cni.RuntimeConfig{IfName: o.ifName}}
	if t.runtime.Args, err = cni.ParseArgs(o.args); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(o.capabilities), &t.runtime.Capabilities); err != nil {
		return fmt.Errorf("-capabilities: %w", err)
	}
	var executor cni.Executor = cni.Processes{}
	if o.inProcess {
		executor = plugins.InProcess{}
	}
	config := cni.Config{Path: filepath.SplitList(o.bin), Dir: o.dir, Executor: t.record(executor)}
	if t.invoker, err = cni.New(config); err != nil {
		return err
	}
	result, err := t.do(ctx, flags.Args())
	if o.asJSON && result != nil {
		data, encodeErr := result.Encode(list.Version)
		fmt.Fprintf(stdout, "%s\n", data)
		return errors.Join(err, encodeErr)
	}
	return errors.Join(err, t.print(stdout))
}

// record notes the calls of an executor.
func (t *tool) record(e cni.Executor) cni.Executor {
	return cni.ExecutorFunc(func(ctx context.Context, c cni.Call) ([]byte, error) {
		start := time.Now()
		out, err := e.Exec(ctx, c)
		row := call{plugin: c.Type, command: c.Command, took: time.Since(start), err: err}
		if c.Command == cni.CmdAdd && err == nil {
			row.result, row.err = cni.ParseResult(out, t.list.Version)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.calls = append(t.calls, row)
		return out, err
	})
}

// attachment names the container of a namespace, which is the same in all runs.
func (t *tool) attachment(namespace string) cni.RuntimeConfig {
	sum := sha256.Sum256([]byte(namespace))
	r := t.runtime
	r.NetNS, r.ContainerID = namespace, "cnitool-"+hex.EncodeToString(sum[:10])
	return r
}

func (t *tool) do(ctx context.Context, words []string) (*cni.Result, error) {
	command, namespaces := "", words
	if len(words) > 0 {
		command, namespaces = words[0], words[1:]
	}
	if need := map[string]int{"add": 1, "del": 1, "check": 1, "status": 0, "gc": len(namespaces)}; command == "" || need[command] != len(namespaces) {
		return nil, fmt.Errorf("usage: cnitool [flags] add|del|check NAMESPACE, gc NAMESPACE..., or status; got %q", words)
	}
	switch command {
	case "add":
		result, err := t.invoker.Add(ctx, t.list, t.attachment(namespaces[0]))
		if err == nil && t.resolvConf != "" {
			err = os.WriteFile(t.resolvConf, result.DNS.ResolvConf(), 0o644)
		}
		return result, err
	case "del":
		return nil, t.invoker.Del(ctx, t.list, t.attachment(namespaces[0]))
	case "check":
		return nil, t.invoker.Check(ctx, t.list, t.attachment(namespaces[0]))
	case "gc":
		var valid []cni.Attachment
		for _, n := range namespaces {
			r := t.attachment(n)
			valid = append(valid, cni.Attachment{ContainerID: r.ContainerID, IfName: r.IfName})
		}
		return nil, t.invoker.GC(ctx, t.list, valid)
	case "status":
		return nil, t.invoker.Status(ctx, t.list)
	}
	return nil, fmt.Errorf("unknown command %q", command)
}

// print writes the table. Its columns after the time are those of the result so far.
func (t *tool) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NETWORK\tVERSION\tPLUGIN\tCOMMAND\tMS\tINTERFACES\tADDRESSES\tROUTES")
	for _, c := range t.calls {
		interfaces, addresses, routes := "-", "-", "-"
		if c.err != nil {
			interfaces = "failed"
		}
		if r := c.result; r != nil {
			interfaces = join(r.Interfaces, func(i cni.Interface) string { return i.Name })
			addresses = join(r.IPs, func(ip cni.IP) string { return ip.Address.String() })
			routes = join(r.Routes, func(r cni.Route) string { return r.Dst.String() })
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f\t%s\t%s\t%s\n", t.list.Name, t.list.Version, c.plugin, c.command,
			float64(c.took.Microseconds())/1000, interfaces, addresses, routes)
	}
	return w.Flush()
}

func join[T any](list []T, text func(T) string) string {
	if len(list) == 0 {
		return "-"
	}
	var words []string
	for _, e := range list {
		words = append(words, text(e))
	}
	return strings.Join(words, ",")
}
