package peer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tags are what of the build tags of Kubernetes' releases matters to an API
// server. planekit's programs get the same, and all are built without C, as
// releases are.
const tags = "grpcnotrace"

// Build compiles programs of the module at module into bin, stripped.
func Build(ctx context.Context, bin, module string, programs ...string) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	return compile(ctx, bin+string(filepath.Separator), module, tags, programs)
}

// BuildAs compiles one program of the module at module into the file out, with
// more build tags than other programs have.
func BuildAs(ctx context.Context, out, module, more, program string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	return compile(ctx, out, module, tags+","+more, []string{program})
}

func compile(ctx context.Context, out, module, tags string, programs []string) error {
	arguments := []string{"build", "-trimpath", "-ldflags=-s -w", "-tags=" + tags, "-o", out}
	cmd := exec.CommandContext(ctx, "go", append(arguments, programs...)...)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", programs, err, out)
	}
	return nil
}

// Module is the directory of this module, which holds the stock programs; the
// one above it is planekit's.
func Module(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}

// Size is what a program weighs, and how many modules it links.
func Size(ctx context.Context, program string) (bytes int64, modules int, err error) {
	info, err := os.Stat(program)
	if err != nil {
		return 0, 0, err
	}
	out, err := exec.CommandContext(ctx, "go", "version", "-m", program).Output()
	return info.Size(), strings.Count(string(out), "\n\tdep\t"), err
}
