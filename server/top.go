package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// topEvery is how often "ration top" asks.
const topEvery = time.Second

func (p *program) top() *cobra.Command {
	to := &target{source: source{program: p}}
	var once bool
	by := topByRefused
	cmd := &cobra.Command{
		Use:     "top",
		GroupID: "client",
		Short:   "Watch what a server decides",
		Long: `Watch what a server decides: each limit's rates, the keys that are refused and used most, and the store. It is drawn anew each
second.

Keys: s sorts by something else, q ends. NO_COLOR=1 leaves colours out. Where the output is no terminal, and with --once, it is
printed once. Keys of callers are shown as fingerprints, unless the server shows them.`,
		Example: `  ration top
  ration top --server http://127.0.0.1:7531 --sort total
  ration top --once`,
		Args: args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to.direct() {
				return usageError{errors.New("--store is a store alone; top shows what a server decided, so name one with --server")}
			}
			in, inTerminal := cmd.InOrStdin().(*os.File)
			out, outTerminal := cmd.OutOrStdout().(*os.File)
			if once || p.json || !inTerminal || !outTerminal || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
				return p.topOnce(cmd, to, by)
			}
			screen := &topScreen{in: in, out: out, view: topView{by: by, colour: p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb"}}
			return screen.run(cmd.Context(), to)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "print it once")
	cmd.Flags().Var(&by, "sort", "what limits are sorted by")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(topOrders[:], cobra.ShellCompDirectiveNoFileComp)) // fails if done twice
	to.register(cmd)
	return p.jsonFlag(cmd)
}

func (p *program) topOnce(cmd *cobra.Command, to *target, by topOrder) error {
	got, err := to.call(cmd.Context(), http.MethodGet, ofActivity, nil)
	if err != nil {
		return err
	}
	return p.show(cmd, got, func(cmd *cobra.Command, body []byte) error {
		a, err := decode[topActivity](body)
		if err != nil {
			return err
		}
		view := topView{by: by, now: &a}
		_, err = io.WriteString(cmd.OutOrStdout(), strings.Join(view.lines(100, 0), "\n")+"\n")
		return err
	})
}

// topScreen is a terminal that shows a view.
type topScreen struct {
	in, out *os.File
	view    topView
}

// What a terminal is told. The other screen keeps what stood on it before.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	fromTheTop  = "\x1b[H"
	restOfLine  = "\x1b[K"
	restBelow   = "\x1b[J"
)

// run draws until ctx is done or somebody has had enough, and leaves the terminal as it was.
func (s *topScreen) run(ctx context.Context, to *target) (err error) {
	before, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return fmt.Errorf("top: the terminal: %w; --once needs none", err)
	}
	defer func() {
		_, werr := io.WriteString(s.out, leaveScreen)
		err = errors.Join(err, werr, term.Restore(int(s.in.Fd()), before))
	}()
	if _, err := io.WriteString(s.out, enterScreen); err != nil {
		return err
	}
	keys := make(chan byte)
	go s.read(ctx, keys) // a read of a terminal cannot be ended; the program does
	ctx, cancel := context.WithCancel(ctx)
	asked := make(chan topAnswer, 1)
	asking := false
	defer func() {
		cancel()
		if asking {
			<-asked
		}
	}()
	tick := time.NewTicker(topEvery)
	defer tick.Stop()
	for {
		if !asking && s.view.due() {
			asking = true
			go func() { asked <- askTop(ctx, to) }()
		}
		if err := s.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case a := <-asked:
			asking = false
			s.view.take(a)
		case key := <-keys:
			switch key {
			case 'q', 'Q', 3, 4, 27: // Ctrl-C, Ctrl-D, Escape
				return nil
			case 's', 'S':
				s.view.by = (s.view.by + 1) % topOrder(len(topOrders))
			}
		}
	}
}

func (s *topScreen) read(ctx context.Context, keys chan<- byte) {
	var one [1]byte
	for {
		if n, err := s.in.Read(one[:]); err != nil {
			one[0] = 'q' // the terminal is gone
		} else if n == 0 {
			continue
		}
		select {
		case keys <- one[0]:
		case <-ctx.Done():
			return
		}
	}
}

func (s *topScreen) draw() error {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		width, height = 80, 24
	}
	var b strings.Builder
	b.WriteString(fromTheTop)
	lines := s.view.lines(width, height)
	for i, line := range lines {
		b.WriteString(line + restOfLine)
		if i < len(lines)-1 {
			b.WriteString("\r\n")
		}
	}
	b.WriteString(restBelow)
	_, err = io.WriteString(s.out, b.String())
	return err
}

// topAnswer is what a server said, or why it did not.
type topAnswer struct {
	activity topActivity
	err      error
}

func askTop(ctx context.Context, to *target) (a topAnswer) {
	got, err := to.call(ctx, http.MethodGet, ofActivity, nil)
	switch {
	case err != nil:
		a.err = err
	case got.status != http.StatusOK:
		a.err = problem(got)
	default:
		a.activity, a.err = decode[topActivity](got.body)
	}
	return a
}
