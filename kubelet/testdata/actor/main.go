// Command actor runs in the containers of the kubelet's tests. Without arguments it waits for TERM.
// "fail" writes a termination message and exits with 7. "wail" only prints lines and exits with 3.
// "tell" waits like the first, but writes its view of the environment into its termination message.
// "chatter" prints numbers. "eat" takes memory, "fork" processes and "spin" a CPU without
// end. "unbroken" prints a line without end. "fill FILE" waits like
// the first when the disk is full. "critest" is the program of package critest. Two other arguments
// are a command; see commands. As a network plugin, with CNI_COMMAND, it reports an address.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/planekit/planekit/kubelet/cri/critest/program"
)

func main() {
	if os.Getenv("CNI_COMMAND") != "" {
		network()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "critest" {
		os.Exit(program.Main(os.Args[2:]))
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	if len(os.Args) == 3 && os.Args[1] == "fill" {
		fill(os.Args[2])
		<-stop
		return
	}
	if len(os.Args) == 3 {
		command(os.Args[1], os.Args[2])
		return
	}
	fmt.Println("hello from the actor")
	switch strings.Join(os.Args[1:], " ") {
	case "fail":
		say("it went wrong")
		os.Exit(7)
	case "wail":
		for i := range 100 {
			fmt.Printf("line %d of what went wrong\n", i)
		}
		os.Exit(3)
	case "eat":
		// A shim asks to hear of lack of memory only after it has started the container. What dies
		// before has, for containerd, failed in some other way.
		time.Sleep(2 * time.Second)
		var all [][]byte
		for {
			piece := make([]byte, 1<<20)
			for i := 0; i < len(piece); i += 4096 {
				piece[i] = 1
			}
			all = append(all, piece)
		}
	case "fork":
		fork()
	case "unbroken":
		for line := bytes.Repeat([]byte("x"), 64<<10); len(stop) == 0; {
			os.Stdout.Write(line)
		}
		return
	case "spin":
		for len(stop) == 0 {
		}
		return
	case "chatter":
		go func() {
			for i := 0; ; i++ {
				if i%1000 == 0 {
					time.Sleep(50 * time.Millisecond)
				}
				fmt.Println(i)
			}
		}()
	case "tell":
		conf, err := os.ReadFile("/etc/conf/a.conf")
		if err != nil {
			say(err.Error())
			os.Exit(1)
		}
		if err := os.WriteFile("/scratch/file", conf, 0o600); err != nil {
			say(err.Error())
			os.Exit(1)
		}
		say(fmt.Sprintf("name=%s conf=%s", os.Getenv("NAME"), conf))
	}
	<-stop
}

// fork starts copies of this program, which do the same, as fast as it can.
func fork() {
	for {
		if err := exec.Command("/actor", "fork").Start(); err != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// fill writes to a file until the disk is full.
func fill(path string) {
	file, err := os.Create(path)
	for err == nil {
		_, err = file.Write(make([]byte, 1<<20))
	}
	fmt.Println(err)
}

func say(words string) {
	path := os.Getenv("WORDS")
	if path == "" {
		path = "/dev/termination-log"
	}
	if err := os.WriteFile(path, []byte(words), 0o600); err != nil {
		fmt.Println(err)
	}
}

// network answers as a plugin of CNI 1.0: the address is one of the pod, whose network has no links.
func network() {
	switch os.Getenv("CNI_COMMAND") {
	case "VERSION":
		fmt.Println(`{"cniVersion":"1.0.0","supportedVersions":["0.3.1","0.4.0","1.0.0"]}`)
	case "ADD":
		fmt.Printf(`{"cniVersion":"1.0.0","interfaces":[{"name":%q,"sandbox":%q}],"ips":[{"interface":0,"address":"10.9.0.7/24"}]}`,
			os.Getenv("CNI_IFNAME"), os.Getenv("CNI_NETNS"))
	}
}
