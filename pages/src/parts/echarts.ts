// The parts of ECharts the pages use, loaded with the first page that draws a chart.
import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import { AriaComponent, BrushComponent, DataZoomComponent, GridComponent, LegendComponent, MarkAreaComponent, MarkLineComponent, TitleComponent, ToolboxComponent, TooltipComponent, VisualMapComponent } from "echarts/components";
import * as core from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

core.use([
  BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart, AriaComponent, BrushComponent, DataZoomComponent, GridComponent,
  LegendComponent, MarkAreaComponent, MarkLineComponent, TitleComponent, ToolboxComponent, TooltipComponent, VisualMapComponent, CanvasRenderer,
]);

export { core };
