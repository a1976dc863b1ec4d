// Command envtest stands in for the etcd and the kube-apiserver that
// sigs.k8s.io/controller-runtime/pkg/envtest starts:
//
//	go run ./examples/envtest install DIR
//	KUBEBUILDER_ASSETS=DIR go test ./...
//
// DIR then has the program under both names. Started as kube-apiserver it is an API server in memory,
// which serves CustomResourceDefinitions and takes the flags that envtest and its users pass. It listens
// where they say, with the certificates that they name, once it serves everything. It runs no controllers
// and no scheduler, like the program that it stands in for. Started as etcd it answers that it is
// healthy, and stores nothing: objects end with the API server.
//
// Flags that it does not know are refused by name. Those that it takes and that change nothing here, such as
// feature gates, are named in a warning on standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
)

// names are the programs that this one stands in for.
var names = []string{"etcd", "kube-apiserver"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	err := command(ctx, name, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// command runs the program of a name until ctx is done.
func command(ctx context.Context, name string, arguments []string, stdout, stderr io.Writer) error {
	switch {
	case name == "etcd":
		return runEtcd(ctx, arguments, stdout)
	case name == "kube-apiserver":
		return runServer(ctx, arguments, stdout, stderr)
	case len(arguments) == 2 && arguments[0] == "install":
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return install(self, arguments[1])
	}
	return errors.New("usage: envtest install DIR")
}

// install copies the program to dir, under each name.
func install(program, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		if err := copyProgram(program, filepath.Join(dir, name+filepath.Ext(program))); err != nil {
			return err
		}
	}
	return nil
}

// copyProgram replaces the file to. Programs that run from the former one go on.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".*")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o755), out.Close()); err == nil {
		err = os.Rename(out.Name(), to)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(out.Name()))
	}
	return err
}

// parse parses the flags of a program. With --help it prints them.
func parse(flags *pflag.FlagSet, arguments []string, stdout io.Writer) error {
	flags.SetOutput(stdout)
	flags.SortFlags = true
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}
