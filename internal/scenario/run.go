package scenario

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// Config names the scripts and programs of a test.
type Config struct {
	// Dir is the directory of the scripts, *.txtar.
	Dir string
	// Programs is a directory that [Build] filled; it is added to PATH.
	Programs string
	// More are further directories for PATH.
	More []string
	// Env holds variables of the scripts, NAME=value.
	Env []string
	// Commands are further commands of the scripts.
	Commands map[string]func(ts *testscript.TestScript, neg bool, arguments []string)
	// OneByOne runs the scripts one after the other. Clusters with real containers share the
	// machine: their pods have the same addresses, and the leftovers of one cannot be distinguished
	// from resources of another.
	OneByOne bool
}

const (
	// retryEvery is the interval between two attempts of await.
	retryEvery = 50 * time.Millisecond
	// listenTimeout limits the time from the start of a server until it listens.
	listenTimeout = time.Minute
)

// Run runs every script of config as a subtest.
func Run(t *testing.T, config Config) {
	t.Helper()
	turn := make(chan struct{}, 1)
	commands := map[string]func(*testscript.TestScript, bool, []string){"cluster": runCluster, "await": await, "http": httpGet}
	maps.Copy(commands, config.Commands)
	testscript.Run(t, testscript.Params{
		Dir: config.Dir,
		Setup: func(env *testscript.Env) error {
			if config.OneByOne {
				turn <- struct{}{}
				env.Defer(func() { <-turn }) // runs last
			}
			c := &cluster{
				program:    filepath.Join(config.Programs, "cluster"),
				dataDir:    filepath.Join(env.WorkDir, "data"),
				kubeconfig: filepath.Join(env.WorkDir, "kubeconfig"),
				log:        filepath.Join(env.WorkDir, "cluster.log"),
			}
			path := config.Programs
			for _, dir := range config.More {
				path += string(filepath.ListSeparator) + dir
			}
			env.Setenv("PATH", path+string(filepath.ListSeparator)+os.Getenv("PATH"))
			env.Setenv("KUBECONFIG", c.kubeconfig)
			env.Setenv("HOME", env.WorkDir)
			if cache, err := os.UserCacheDir(); err == nil {
				env.Setenv("XDG_CACHE_HOME", cache) // for images that were built before
			}
			env.Vars = append(env.Vars, config.Env...)
			c.env = env.Vars
			env.Values[clusterKey{}] = c
			env.Defer(func() {
				if err := c.clean(); err != nil {
					t.Errorf("clean up: %v", err)
				}
				if t.Failed() {
					t.Logf("the cluster said:\n%s", c.said())
				}
			})
			return nil
		},
		Cmds: commands,
	})
}

type clusterKey struct{}

func runCluster(ts *testscript.TestScript, neg bool, arguments []string) {
	if neg || len(arguments) == 0 {
		ts.Fatalf("usage: cluster start|stop|stop-now|ended|quiet|kill|leftovers")
	}
	c := ts.Value(clusterKey{}).(*cluster)
	switch arguments[0] {
	case "start":
		begin := time.Now()
		ts.Check(c.start(arguments[1:]))
		ts.Logf("ready after %v", time.Since(begin).Round(time.Millisecond))
	case "stop":
		ts.Check(c.stop())
	case "stop-now":
		ts.Check(c.stopNow())
	case "ended":
		ts.Check(c.end())
	case "quiet":
		ts.Check(c.quiet())
	case "kill":
		ts.Check(c.kill())
	case "leftovers":
		for _, left := range c.leftovers() {
			ts.Logf("left behind: %s", left)
			defer ts.Fatalf("something was left behind")
		}
	default:
		ts.Fatalf("unknown: cluster %s", arguments[0])
	}
}

func await(ts *testscript.TestScript, neg bool, arguments []string) {
	if neg || len(arguments) < 3 {
		ts.Fatalf("usage: await TIME FILE CMD...")
	}
	patience, err := time.ParseDuration(arguments[0])
	ts.Check(err)
	want := parseTable(ts.ReadFile(arguments[1]))
	begin := time.Now()
	for {
		printed, err := output(ts, arguments[2:])
		if err == nil {
			if err = compare(want, parseTable(printed)); err == nil {
				ts.Logf("after %v", time.Since(begin).Round(time.Millisecond))
				return
			}
		}
		if time.Since(begin) > patience {
			ts.Fatalf("not within %v: %v\n%s", patience, err, printed)
		}
		time.Sleep(retryEvery)
	}
}

func httpGet(ts *testscript.TestScript, neg bool, arguments []string) {
	if neg || len(arguments) < 3 {
		ts.Fatalf("usage: http CODE PATH CMD...")
	}
	printed, err := output(ts, arguments[2:])
	ts.Check(err)
	addresses, err := parseTable(printed).column("IP")
	ts.Check(err)
	if len(addresses) == 0 {
		ts.Fatalf("no address to ask")
	}
	client := http.Client{Timeout: 5 * time.Second}
	for _, address := range addresses {
		answer, err := getSoon(&client, "http://"+address+arguments[1])
		ts.Check(err)
		body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		ts.Check(err)
		ts.Check(answer.Body.Close())
		if got := fmt.Sprint(answer.StatusCode); got != arguments[0] {
			ts.Fatalf("http://%s%s: %s, want %s\n%s", address, arguments[1], answer.Status, arguments[0], body)
		}
	}
}

// getSoon repeats a request until the server listens: a container is running as soon as its program
// is started.
func getSoon(client *http.Client, url string) (*http.Response, error) {
	begin := time.Now()
	for {
		answer, err := client.Get(url)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || time.Since(begin) > listenTimeout {
			return answer, err
		}
		time.Sleep(retryEvery)
	}
}

// output runs a program in the script's PATH. Unlike exec it writes nothing to the log, which a
// loop would fill.
func output(ts *testscript.TestScript, arguments []string) (string, error) {
	program := arguments[0]
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, program)); err == nil && info.Mode().IsRegular() {
			program = filepath.Join(dir, program)
			break
		}
	}
	cmd := exec.Command(program, arguments[1:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), ts.Value(clusterKey{}).(*cluster).env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(arguments, " "), err, stderr.String())
	}
	return string(out), err
}
